import { readSync, writeSync } from 'node:fs';

/** Frames on a pipe: four bytes of length, little end first, then one JSON object in UTF-8. The twin is python/moriarty_guest/frames.py. */

export const FRAME_BYTES_MAX = 1 << 20;
const HEAD_BYTES = 4;

/** What came through the pipe is no frame. */
export class FrameError extends Error {
  override readonly name = 'FrameError';
}

const decoder = new TextDecoder('utf-8', { fatal: true });

/** Blocks until all of it is in the pipe. @throws FrameError when it is too long; the error of the system when nobody reads. */
export function writeFrame(pipe: number, value: object): void {
  const text = JSON.stringify(value);
  const size = Buffer.byteLength(text);
  if (size > FRAME_BYTES_MAX)
    throw new FrameError(`a question of ${size} bytes, at most ${FRAME_BYTES_MAX} are sent`);
  const frame = Buffer.allocUnsafe(HEAD_BYTES + size);
  frame.writeUInt32LE(size, 0);
  frame.write(text, HEAD_BYTES);
  for (let from = 0; from < frame.length; ) from += writeSync(pipe, frame, from, frame.length - from);
}

/** Reads frames that come one at a time, as answers do: whoever asks again has read the last one whole. */
export class FrameReader {
  readonly #pipe: number;
  #buffer = Buffer.alloc(1 << 16);
  #filled = 0;

  constructor(pipe: number) {
    this.#pipe = pipe;
  }

  /** Blocks until a whole frame is there; null at the end of the pipe. @throws FrameError */
  read(): unknown {
    this.#filled = 0;
    if (!this.#fillTo(HEAD_BYTES)) {
      if (this.#filled === 0) return null;
      throw new FrameError(`cut off after ${this.#filled} bytes of a length`);
    }
    const size = this.#buffer.readUInt32LE(0);
    if (size > FRAME_BYTES_MAX)
      throw new FrameError(`a frame of ${size} bytes, at most ${FRAME_BYTES_MAX} are read`);
    const end = HEAD_BYTES + size;
    if (!this.#fillTo(end))
      throw new FrameError(`cut off after ${this.#filled - HEAD_BYTES} of ${size} bytes`);
    if (this.#filled > end) throw new FrameError(`${this.#filled - end} bytes that nobody asked for`);
    try {
      return JSON.parse(decoder.decode(this.#buffer.subarray(HEAD_BYTES, end)));
    } catch (error) {
      throw new FrameError(`not JSON: ${(error as Error).message}`);
    }
  }

  /** False when the pipe ends before. */
  #fillTo(count: number): boolean {
    if (count > this.#buffer.length) {
      const larger = Buffer.alloc(count);
      this.#buffer.copy(larger, 0, 0, this.#filled);
      this.#buffer = larger;
    }
    while (this.#filled < count) {
      const room = this.#buffer.length - this.#filled;
      const got = readSync(this.#pipe, this.#buffer, this.#filled, room, null);
      if (got === 0) return false;
      this.#filled += got;
    }
    return true;
  }
}
