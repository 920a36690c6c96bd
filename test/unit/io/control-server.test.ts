import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeFrame,
  emptyRdmaMemoryRegion,
  encodeFrame,
  FRAME_BODY_BYTES_MAX,
  MessageType,
  packAskMemoryRegion,
  unpackAskMemoryRegion,
} from '../../../src/io/control-frames.ts';
import {
  type ControlAnswer,
  controlDeadline,
  createControlServer,
  expireControl,
  receiveControl,
} from '../../../src/io/engine/control-server.ts';
import { serve } from '../../../src/io/engine/inputs.ts';
import { addPair, createRig, type PairOptions } from './rig.ts';

/** The control plane as sockets deliver it: in pieces, from many at once, cut off (mori-io.md A13). */

const LIMIT = 5_000_000;
const NOTHING = new Uint8Array(0);

function question(id: number): Uint8Array {
  const request = { ekey: 'target', devId: 0, id, mr: emptyRdmaMemoryRegion() };
  return encodeFrame(MessageType.AskMemoryRegion, packAskMemoryRegion(request));
}

function serverOf(options: PairOptions = {}) {
  const { target } = addPair(createRig(), {}, options);
  return { target, server: createControlServer(target) };
}

function told(answers: readonly ControlAnswer[]): [number, number | null][] {
  return answers.map(({ connection, frame }) => [
    connection,
    frame === null ? null : unpackAskMemoryRegion(decodeFrame(frame).body).id,
  ]);
}

describe('a control frame', () => {
  test('is answered when its last byte is here, however it was cut', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 30 }), (cuts) => {
        const { target, server } = serverOf();
        const frame = question(0);
        let at = 0;
        const seen: ControlAnswer[] = [];
        for (const bytes of [...cuts, frame.length]) {
          expect(seen).toEqual([]);
          seen.push(...receiveControl(target, server, 7, frame.subarray(at, at + bytes), at));
          at += bytes;
          if (at >= frame.length) break;
        }
        expect(seen).toEqual([{ connection: 7, frame: serve(target, frame) }]);
        expect(server.open).toEqual([]);
      }),
      { numRuns: 100, seed: 13 },
    );
  });

  test('is followed by nothing: what else came with it is lost', () => {
    const { target, server } = serverOf();
    const both = Uint8Array.of(...question(0), ...question(1));
    expect(told(receiveControl(target, server, 1, both, 0))).toEqual([[1, 0]]);
    expect(server.open).toEqual([]);
  });

  test('of an unknown type, or too long, closes the connection before its body is here', () => {
    const { target, server } = serverOf();
    const long = Uint8Array.of(1, 0, 0x10, 0, 1);
    expect(new DataView(long.buffer).getUint32(1)).toBe(FRAME_BODY_BYTES_MAX + 1);
    expect(receiveControl(target, server, 1, Uint8Array.of(9, 0, 0, 0, 4), 0)).toEqual([
      { connection: 1, frame: null },
    ]);
    expect(receiveControl(target, server, 2, long, 0)).toEqual([{ connection: 2, frame: null }]);
  });

  test('whose peer goes away within it is given up, and who never sent a byte is not missed', () => {
    const { target, server } = serverOf();
    receiveControl(target, server, 1, question(0).subarray(0, 8), 0);
    expect(receiveControl(target, server, 1, NOTHING, 5)).toEqual([{ connection: 1, frame: null }]);
    expect(receiveControl(target, server, 2, NOTHING, 5)).toEqual([]);
    expect(controlDeadline(target, server)).toBeNull();
  });
});

describe('a client that stops inside a frame', () => {
  test('holds up all others for the time limit, and the next one for as long again', () => {
    const { target, server } = serverOf();
    const frame = question(0);
    for (const connection of [1, 2])
      receiveControl(target, server, connection, frame.subarray(0, 4), connection);
    expect(receiveControl(target, server, 3, question(3), 10)).toEqual([]);
    expect(controlDeadline(target, server)).toBe(LIMIT + 1);
    expect(expireControl(target, server, LIMIT)).toEqual([]);
    expect(told(expireControl(target, server, LIMIT + 1))).toEqual([[1, null]]);
    expect(controlDeadline(target, server)).toBe(2 * LIMIT + 1);
    expect(told(receiveControl(target, server, 2, frame.subarray(4), LIMIT + 2))).toEqual([
      [2, 0],
      [3, 3],
    ]);
  });

  test('holds up nobody in the sound engine, and each has a time of its own', () => {
    const { target, server } = serverOf({ fidelity: 'sound' });
    for (const connection of [1, 2])
      receiveControl(target, server, connection, question(0).subarray(0, 4), connection);
    expect(told(receiveControl(target, server, 3, question(3), 10))).toEqual([[3, 3]]);
    expect(told(expireControl(target, server, LIMIT + 1))).toEqual([[1, null]]);
    expect(told(expireControl(target, server, LIMIT + 2))).toEqual([[2, null]]);
  });

  test('gets more time with each byte, and all the time there is where the limit is 0', () => {
    const { target, server } = serverOf({ environment: { MORI_IO_CP_TIMEOUT_MS: '1500' } });
    receiveControl(target, server, 1, question(0).subarray(0, 1), 0);
    expect(controlDeadline(target, server)).toBe(1_500_000);
    receiveControl(target, server, 1, question(0).subarray(1, 2), 1_000_000);
    expect(controlDeadline(target, server)).toBe(2_500_000);
    const patient = serverOf({ environment: { MORI_IO_CP_TIMEOUT_MS: '0' } });
    receiveControl(patient.target, patient.server, 1, question(0).subarray(0, 1), 0);
    expect(controlDeadline(patient.target, patient.server)).toBeNull();
    expect(expireControl(patient.target, patient.server, 10 * LIMIT)).toEqual([]);
  });
});

test('a frame of the greatest length is answered, in two pieces and in very many', () => {
  const body = new Uint8Array(FRAME_BODY_BYTES_MAX);
  body.set(packAskMemoryRegion({ ekey: 'target', devId: 0, id: 3, mr: emptyRdmaMemoryRegion() }));
  const frame = encodeFrame(MessageType.AskMemoryRegion, body);
  for (const piece of [frame.length - 1, 64]) {
    const { target, server } = serverOf();
    const seen: ControlAnswer[] = [];
    for (let at = 0; at < frame.length; at += piece)
      seen.push(...receiveControl(target, server, 1, frame.subarray(at, at + piece), at));
    expect(told(seen)).toEqual([[1, 3]]);
  }
});

test('who is not read yet is not kept beyond one frame', () => {
  const { target, server } = serverOf({ fidelity: 'mori' });
  receiveControl(target, server, 1, Uint8Array.of(0), 0);
  const piece = new Uint8Array(FRAME_BODY_BYTES_MAX);
  for (let round = 0; round < 8; round++) receiveControl(target, server, 2, piece, round);
  const kept = server.open.reduce((sum, { buffer }) => sum + buffer.length, 0);
  expect(kept).toBeLessThan(3 * FRAME_BODY_BYTES_MAX);
});
