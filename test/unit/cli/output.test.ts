import { describe, expect, test } from 'vitest';
import { EXIT, exitAfterOutput, openOutput, type WriteSome } from '../../../src/cli/output.ts';

function failingWith(code: string): WriteSome {
  return () => {
    throw Object.assign(new Error(`${code}: planted`), { code });
  };
}

describe('what cannot be written', () => {
  test('because the reader went away changes no exit code', () => {
    const output = openOutput(1, failingWith('EPIPE'));
    output.write('found');
    expect([0, 1, 3].map((code) => exitAfterOutput(code, output))).toEqual([0, 1, 3]);
  });

  test.each(['ENOSPC', 'EIO', 'EBADF', 'EFBIG'])(
    'because of %s ends with 2, unless there is worse',
    (code) => {
      const output = openOutput(1, failingWith(code));
      output.write('found');
      expect(output.failure()).toContain(code);
      const codes = [EXIT.fine, EXIT.violation, EXIT.harness, EXIT.interrupted];
      const told: string[] = [];
      const tell = (text: string): void => void told.push(text);
      expect(codes.map((ended) => exitAfterOutput(ended, output, tell))).toEqual([2, 1, 3, 130]);
      expect(told[0]).toContain(`OUTPUT: standard output cannot be written: ${code}`);
    },
  );

  test('is not tried again', () => {
    let tries = 0;
    const output = openOutput(1, (...all) => {
      tries++;
      return failingWith('EPIPE')(...all);
    });
    for (let line = 0; line < 5; line++) output.write('line');
    expect(tries).toBe(1);
  });
});

test('a slow reader gets every byte, and is waited for without spinning', () => {
  const until = performance.now() + 300;
  const got: number[] = [];
  let tries = 0;
  const output = openOutput(1, (_, bytes, from) => {
    tries++;
    if (performance.now() < until) return failingWith('EAGAIN')(1, bytes, from) as never;
    const part = bytes.subarray(from, from + 1000);
    for (const byte of part) got.push(byte);
    return part.length;
  });
  const text = 'é'.repeat(5000);
  output.write(text);
  expect(Buffer.from(got).toString()).toBe(text);
  expect(tries).toBeGreaterThan(11);
  expect(tries).toBeLessThan(60);
});
