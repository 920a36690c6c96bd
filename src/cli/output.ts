import { writeSync } from 'node:fs';
import { pause } from './pause.ts';

/** Exit codes, as in `moriarty --help`. */
export const EXIT = {
  fine: 0,
  violation: 1,
  usage: 2,
  harness: 3,
  interrupted: 130,
  terminated: 143,
} as const;

/** How a write is done: `writeSync` of node:fs. */
export type WriteSome = (descriptor: number, bytes: Uint8Array, from: number) => number;

/**
 * One stream of the program. Writing to it never throws: what a command has found, and so the exit code, does not depend on
 * who reads. A reader that went away (`| head`) is no fault of anybody; any other failure is kept to be told at the end.
 */
export interface Output {
  write(text: string): void;
  /** Why nothing more can be written; null while all is well or the reader went away. */
  failure(): string | null;
}

/** Longest pause between two tries while the reader is slow. */
const PAUSE_MILLIS_MAX = 100;

export function openOutput(descriptor: number, writeSome: WriteSome = writeSync): Output {
  let state: 'open' | 'unread' | { readonly failure: string } = 'open';
  return {
    write(text) {
      if (state !== 'open') return;
      try {
        writeAll(descriptor, Buffer.from(text), writeSome);
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        state = code === 'EPIPE' ? 'unread' : { failure: message };
      }
    },
    failure: () => (typeof state === 'string' ? null : state.failure),
  };
}

/** Waits for a slow reader without spinning: a descriptor that somebody made non-blocking says EAGAIN while it is full. */
function writeAll(descriptor: number, bytes: Uint8Array, writeSome: WriteSome): void {
  let waitMillis = 1;
  for (let written = 0; written < bytes.length; ) {
    try {
      written += writeSome(descriptor, bytes, written);
      waitMillis = 1;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EAGAIN' && code !== 'EINTR') throw error;
      pause(waitMillis);
      waitMillis = Math.min(2 * waitMillis, PAUSE_MILLIS_MAX);
    }
  }
}

const standardOutput = openOutput(1);
const standardError = openOutput(2);

export function print(text: string): void {
  write(`${text}\n`);
}

/** As it is, without a line break. */
export function write(text: string): void {
  standardOutput.write(text);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

export function complain(text: string): void {
  standardError.write(`${text}\n`);
}

/** How the program ends: what was found stays found; a whole result that nobody got is told and ends with 2. */
export function exitAfterOutput(
  code: number,
  output: Output = standardOutput,
  tell: (text: string) => void = complain,
): number {
  const failure = output.failure();
  if (failure === null) return code;
  tell(`moriarty: OUTPUT: standard output cannot be written: ${failure}`);
  return code === EXIT.fine ? EXIT.usage : code;
}

/** One line that is overwritten, on a terminal only. */
export function showProgress(text: string): void {
  if (process.stderr.isTTY) standardError.write(`\r${text}\u001b[K`);
}

export function endProgress(): void {
  if (process.stderr.isTTY) standardError.write('\r\u001b[K');
}

export function thousands(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
