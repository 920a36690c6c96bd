import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type Figure, figure, heapGrowth, median, timeInTurn } from '../../../src/cli/bench/figures.ts';
import { byteFigures } from '../../../src/cli/bench/kv-bytes.ts';
import { copyFigures } from '../../../src/cli/bench/kv-copy.ts';
import { blockIds, createKvMemory, MIB, shuffled } from '../../../src/cli/bench/kv-memory.ts';
import { runPlainLoop } from '../../../src/cli/bench/plain-loop.ts';
import { benchOf, command, type Suite } from '../../../src/cli/commands/bench.ts';
import { runProgram } from '../../../src/cli/program.ts';

const printed = vi.hoisted(() => ({
  lines: [] as string[],
  complaints: [] as string[],
  documents: [] as unknown[],
}));
vi.mock('../../../src/cli/output.ts', async (original) => ({
  ...(await original<object>()),
  print: (line: string) => printed.lines.push(line),
  complain: (line: string) => printed.complaints.push(line),
  printJson: (document: unknown) => printed.documents.push(document),
}));

describe('a figure', () => {
  test.each([
    ['atLeast', 0.95, true],
    ['atLeast', 0.9499, false],
    ['atLeast', 1.2, true],
    ['atMost', 0.95, true],
    ['atMost', 0.9501, false],
    ['atMost', 0.2, true],
    ['atLeast', Number.NaN, false],
    ['atMost', Number.NaN, false],
  ] as const)('that is to be %s 0.95 and is %d holds: %s', (sense, ratio, holds) => {
    expect(figure('a', 1, 's', 'b', ratio, sense, 0.95).holds).toBe(holds);
  });

  test('shows four digits, and is judged before they are cut', () => {
    const { value, ratio, holds } = figure('a', 1234.56, 's', 'b', 0.949999, 'atLeast', 0.95);
    expect({ value, ratio, holds }).toEqual({ value: 1235, ratio: 0.95, holds: false });
  });
});

describe('the median', () => {
  test.each([
    [[3], 3],
    [[9, 1, 5], 5],
    [[4, 1, 3, 2], 2.5],
    [[10, 9, 100], 10],
  ])('of %j is %d', (values, wanted) => {
    const before = [...values];
    expect(median(values)).toBe(wanted);
    expect(values).toEqual(before);
  });
});

describe('timeInTurn', () => {
  test('warms each candidate up once and then runs them in turn, round by round', () => {
    const calls: string[] = [];
    const { seconds, ratios } = timeInTurn([() => calls.push('a'), () => calls.push('b')], 3, 2);
    expect(calls.join('')).toBe('aabb'.repeat(4));
    expect(seconds).toHaveLength(2);
    expect(ratios).toHaveLength(2);
  });

  test('gives seconds for one call, and the median of the ratios within rounds', () => {
    let now = 0;
    // Rounds of 10, 20 and 40 ms against 20, 20 and 20: the machine drifts, the ratios are 2, 1 and 0.5.
    const slow = [0, 10, 20, 40];
    let round = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
    const first = () => {
      now += slow[round]!;
    };
    const second = () => {
      now += 20;
      round++;
    };
    const { seconds, ratios } = timeInTurn([first, second], 3, 1);
    clock.mockRestore();
    expect(seconds).toEqual([0.02, 0.02]);
    expect(ratios).toEqual([1, 1]);
  });
});

describe('the plain loop', () => {
  test('takes as many steps as it is asked for, each another event: every step is in its digest', () => {
    const digests = [0, 1, 2, 999, 1000].map((steps) => runPlainLoop(steps, 7));
    expect(new Set(digests).size).toBe(5);
    expect(runPlainLoop(1000, 7)).toBe(digests[4]);
    expect(runPlainLoop(1000, 8)).not.toBe(digests[4]);
  });
});

describe('the command', () => {
  const made = (holds: boolean): Figure =>
    figure('copy', 12.345, 'GB/s', 'C', holds ? 1 : 0.5, 'atLeast', 0.95);

  const suites = (list: Readonly<Record<string, Suite>>) => [
    { form: 'bench <suite>', summary: '', load: async () => ({ command: benchOf(list) }) },
  ];

  function run(suite: Suite, ...flags: string[]): Promise<number> {
    return runProgram(['bench', ...flags], suites({ stub: suite }));
  }

  beforeEach(() => {
    printed.lines.length = 0;
    printed.documents.length = 0;
    printed.complaints.length = 0;
  });

  test('prints one document with the fields of every figure', async () => {
    const asked: number[] = [];
    const suite: Suite = (rounds) => {
      asked.push(rounds);
      return [made(true)];
    };
    expect(await run(suite, 'stub', '--json', '--rounds', '5')).toBe(0);
    expect(asked).toEqual([5]);
    expect(printed.documents).toEqual([
      {
        figures: [
          { name: 'copy', value: 12.35, unit: 'GB/s', against: 'C', ratio: 1, floor: 0.95, holds: true },
        ],
      },
    ]);
  });

  test('exits with 1 when a floor is missed, and says which', async () => {
    expect(await run(() => [made(true), made(false)], 'stub')).toBe(1);
    expect(printed.lines.map((line) => line.slice(0, 11))).toEqual(['holds  copy', 'MISSED copy']);
  });

  test('says that a figure was not measured, and why, and exits with 1', async () => {
    const note = 'in 9 of 9 rounds a thread waited for a core';
    const none = { ...figure('copy', Number.NaN, 'GB/s', 'C', Number.NaN, 'atLeast', 0.9), note };
    expect(await run(() => [none], 'stub')).toBe(1);
    expect(printed.lines).toEqual([`MISSED copy: not measured; ${note}`]);
  });

  test('knows its suites, kv among them', async () => {
    expect(await run(() => [], 'nothing')).toBe(2);
    expect(printed.complaints).toEqual(['moriarty: SUITE: "nothing" is not a suite; use one of: stub']);
    expect(command.argument).toContain('kv');
  });
});

describe('the kv suite', () => {
  const memory = createKvMemory(8 * MIB);

  test('has whole figures also without C, where copies go against JavaScript', () => {
    const figures = [...copyFigures(memory, undefined, 1), ...byteFigures(memory, undefined, 1, 65_536)];
    expect(figures).toHaveLength(8);
    for (const one of figures) {
      expect(Object.keys(one)).toEqual(['name', 'value', 'unit', 'against', 'ratio', 'floor', 'holds']);
      expect(one.value).toBeGreaterThan(0);
      expect(one.holds).toBe(one.ratio >= one.floor);
    }
    expect(figures.map(({ against }) => against)).toEqual([
      ...Array(5).fill('TypedArray.set'),
      ...Array(3).fill('TypedArray.copyWithin'),
    ]);
  });

  test('holds digest and stamps against a copy of the same bytes', () => {
    for (const at of [memory.first, memory.second]) memory.bytes.fill(0, at, at + 65_536);
    byteFigures(memory, undefined, 1, 65_536);
    const [first, second] = [memory.first, memory.second].map((at) => memory.bytes.slice(at, at + 65_536));
    expect(second).toEqual(first);
    expect(first.some((byte) => byte !== 0)).toBe(true);
  });

  test('copies every block to a place of its own', () => {
    const blocks = Array.from({ length: memory.size / 4096 }, (_, block) => block);
    for (const block of blocks) memory.words[(memory.first + block * 4096) / 4] = block;
    memory.bytes.fill(0, memory.second, memory.second + memory.size);
    copyFigures(memory, undefined, 1);
    const copied = blocks.map((block) => memory.words[(memory.second + block * 4096) / 4]!);
    expect(copied.sort((a, b) => a - b)).toEqual(blocks);
  });

  test('draws the same lists every time, each id once', () => {
    expect(shuffled(100, 1)).toEqual(shuffled(100, 1));
    expect(shuffled(100, 1)).not.toEqual(shuffled(100, 2));
    const ids = blockIds(64, 256, 8, 3);
    expect(new Set(ids).size).toBe(64);
    expect(ids.filter((id, i) => i % 8 > 0 && id !== ids[i - 1]! + 1)).toEqual([]);
    expect(Math.max(...ids)).toBeLessThan(256);
  });

  test('sees what a call leaves on the heap', () => {
    const kept: number[][] = [];
    const growth = heapGrowth(() => kept.push(new Array<number>(1000).fill(0.5)), 5);
    expect(growth).toBeGreaterThan(4000);
    expect(heapGrowth(() => memory.kernels.digest(0, 64, 128), 5)).toBeLessThan(1024);
    expect(kept.length).toBeGreaterThan(0);
  });
});
