import { describe, expect, test } from 'vitest';
import {
  decodeFrame,
  decodeFrameHeader,
  emptyRegEndpoint,
  encodeFrame,
  FRAME_BODY_BYTES_MAX,
  MessageType,
  packRegEndpoint,
  unpackRegEndpoint,
} from '../../../src/io/control-frames.ts';
import { answered, serve } from '../../../src/io/engine/inputs.ts';
import { takesRail } from '../../../src/io/engine/nic-choice.ts';
import { addPair, createRig } from './rig.ts';

/** The behaviours of upstream's test_protocol and of the rail rule, in our words. */

describe('control frames', () => {
  test.each([5, -1, 0])('carry rail %d there and back', (railId) => {
    const frame = encodeFrame(MessageType.RegEndpoint, packRegEndpoint({ ...emptyRegEndpoint(), railId }));
    const { body } = decodeFrame(frame, MessageType.RegEndpoint);
    expect(unpackRegEndpoint(body)).toEqual({ ...emptyRegEndpoint(), railId });
  });

  test('have no rail unless told', () => {
    expect(emptyRegEndpoint().railId).toBe(-1);
  });

  test('say EOF when the peer closes within a header', () => {
    expect(() => decodeFrameHeader(new Uint8Array(3))).toThrow(/EOF/);
    expect(() => decodeFrameHeader(new Uint8Array(0))).toThrow(/EOF/);
  });

  test('name the expected and the observed type', () => {
    const frame = encodeFrame(MessageType.AskMemoryRegion, new Uint8Array(0));
    expect(() => decodeFrame(frame, MessageType.RegEndpoint)).toThrow(/0 expected, observed 1/);
  });

  test('are refused by their length before the body is read', () => {
    const header = encodeFrame(MessageType.RegEndpoint, new Uint8Array(FRAME_BODY_BYTES_MAX));
    new DataView(header.buffer).setUint32(1, FRAME_BODY_BYTES_MAX + 1);
    expect(() => decodeFrameHeader(header)).toThrow(/limit/);
  });

  test('that cannot be read are answered by closing', () => {
    const { target } = addPair(createRig());
    const unreadable = [
      Uint8Array.of(0, 0, 0),
      Uint8Array.of(7, 0, 0, 0, 0),
      encodeFrame(MessageType.RegEndpoint, Uint8Array.of(0x94, 0x01)),
      encodeFrame(MessageType.AskMemoryRegion, Uint8Array.of(0xc0)),
    ];
    expect(unreadable.map((frame) => serve(target, frame))).toEqual([null, null, null, null]);
  });

  test('that nobody asked for change nothing', () => {
    const { initiator } = addPair(createRig());
    expect(() => answered(initiator, 999, Uint8Array.of(1))).not.toThrow();
  });
});

test('a rail is taken when it is enabled and there', () => {
  const tries = [
    [true, 0, 2],
    [true, 1, 2],
    [true, 2, 2],
    [true, -1, 2],
    [false, 0, 2],
  ] as const;
  expect(tries.map(([enabled, rail, nics]) => takesRail(enabled, rail, nics))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});
