import { describe, expect, test } from 'vitest';
import { grouped, shortBytes, shortMicros, shortRange } from '../../../src/report/plan-report.ts';
import { planText } from '../../../src/report/plan-text.ts';
import { modelWith, planned } from '../cli/plan-helpers.ts';

test('numbers are written the same everywhere', () => {
  expect([0, 999, 1000, 1_342_177_280].map(grouped)).toEqual(['0', '999', '1,000', '1,342,177,280']);
  expect([0, 999, 1000, 999_499, 999_500, 1_342_177_280].map(shortBytes)).toEqual([
    '0 B',
    '999 B',
    '1.00 kB',
    '999 kB',
    '1.00 MB',
    '1.34 GB',
  ]);
  expect([7, 999, 1000, 12_345, 999_499, 999_500].map(shortMicros)).toEqual([
    '7 us',
    '999 us',
    '1.00 ms',
    '12.3 ms',
    '999 ms',
    '1.00 s',
  ]);
  expect([shortRange([3, 4]), shortRange([0, 40])]).toEqual(['3', '0-39']);
});

describe('the table of a plan', () => {
  test('has a row for each pair, and totals', () => {
    const text = planText(planned(modelWith(4, 4, 8), 'tp=2,pp=2', 'tp=4', { tokens: 32, prefix: 16 }));
    expect(text.split('\n')).toEqual([
      'made-up: 32 tokens, 16 of them at D already, WRITE mode',
      '  P  tp 2, pp 2, block 16, kv-first-hnd, bfloat16, 4 blocks',
      '  D  tp 4, pp 1, block 16, kv-first-hnd, bfloat16, 4 blocks',
      '  NIC plain, chunking off, blocks contiguous',
      '',
      'P rank              D rank  heads  layers  runs before  runs  bytes  work requests  time',
      'P0 (stage 0, tp 0)  D0      0      0-1               4     4  1,024              4  7 us',
      'P0 (stage 0, tp 0)  D1      1      0-1               4     4  1,024              4  7 us',
      'P1 (stage 0, tp 1)  D2      2      0-1               4     4  1,024              4  7 us',
      'P1 (stage 0, tp 1)  D3      3      0-1               4     4  1,024              4  7 us',
      'P2 (stage 1, tp 0)  D0      0      2-3               4     4  1,024              4  7 us',
      'P2 (stage 1, tp 0)  D1      1      2-3               4     4  1,024              4  7 us',
      'P3 (stage 1, tp 1)  D2      2      2-3               4     4  1,024              4  7 us',
      'P3 (stage 1, tp 1)  D3      3      2-3               4     4  1,024              4  7 us',
      '',
      'bytes per token   512',
      'bytes in all      8,192 (8.19 kB) between 8 pairs',
      'runs              32, posted as 32 work requests',
      'slowest pair      7 us (predicted)',
    ]);
  });

  test('is the cause alone when the transfer is refused', () => {
    const text = planText(planned('qwen3-8b', 'tp=3', 'tp=1'));
    expect(text.split('\n').at(-1)).toMatch(/^refused: P: 8 KV heads/);
    expect(text).not.toContain('slowest');
  });
});
