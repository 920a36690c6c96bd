// What both processes of two-processes.test.ts share: length-prefixed msgpack over a socket, and memory whose every byte
// says where it is and who wrote it.
import { decode, encode } from '@msgpack/msgpack';

export function send(socket, message) {
  const body = encode(message);
  const head = Buffer.alloc(4);
  head.writeUInt32LE(body.length);
  socket.write(Buffer.concat([head, body]));
}

export async function* frames(socket) {
  let bytes = Buffer.alloc(0);
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32LE(0)) {
      const end = 4 + bytes.readUInt32LE(0);
      yield decode(bytes.subarray(4, end));
      bytes = bytes.subarray(end);
    }
  }
}

/** Bytes that differ by place and by seed, also when shifted. */
export function fill(memory, seed) {
  let state = (seed * 2_654_435_761) >>> 0 || 1;
  for (let i = 0; i < memory.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    memory[i] = state ^ (i >>> 8);
  }
}
