import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { planPicture } from '../../../src/report/plan-picture.ts';
import type { PlanReport } from '../../../src/report/plan-report.ts';
import { modelWith, planned } from '../cli/plan-helpers.ts';

/** Names of all elements in order of their opening; throws for anything that is not a well-formed document. */
function elementsOf(svg: string): string[] {
  const open: string[] = [];
  const names: string[] = [];
  const rest = svg.replace(
    /<(\/?)([a-z]+)((?: [a-zA-Z:-]+="[^"<&]*(?:&(?:amp|lt|gt|quot);[^"<&]*)*")*)(\/?)>/g,
    (_, closes: string, name: string, attributes: string, empty: string) => {
      if (closes === '/') expect(open.pop()).toBe(name);
      else {
        if (names.length > 0) expect(open.length).toBeGreaterThan(0);
        names.push(name);
        if (empty === '') open.push(name);
        const given = [...attributes.matchAll(/ ([a-zA-Z:-]+)=/g)].map((hit) => hit[1]);
        expect(new Set(given).size).toBe(given.length);
      }
      return '';
    },
  );
  expect(open).toEqual([]);
  expect(rest.replace(/&(?:amp|lt|gt|quot);/g, '')).not.toMatch(/[<>&]/);
  expect(svg).not.toMatch(/NaN|undefined|Infinity/);
  return names;
}

interface Box {
  readonly words: string;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

/** Where each text lies, at 6.3 pixels a character of the usual size. */
function textsOf(svg: string): Box[] {
  return [...svg.matchAll(/<text x="([\d.-]+)" y="([\d.-]+)" ([^>]*)>([^<]*)<\/text>/g)].map((hit) => {
    const [, x, y, style, words] = hit as unknown as [string, string, string, string, string];
    const size = Number(/font-size="(\d+)"/.exec(style)?.[1] ?? 12);
    const width = words.replace(/&\w+;/g, '.').length * 6.3 * (size / 12);
    const anchor = /text-anchor="(\w+)"/.exec(style)?.[1] ?? 'start';
    const left = Number(x) - (anchor === 'end' ? width : anchor === 'middle' ? width / 2 : 0);
    return { words, left, right: left + width, top: Number(y) - size * 0.8, bottom: Number(y) + size * 0.2 };
  });
}

function overlaps(boxes: readonly Box[]): string[] {
  return boxes.flatMap((a, index) =>
    boxes
      .slice(index + 1)
      .filter((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
      .map((b) => `${a.words} | ${b.words}`),
  );
}

function expectSound(report: PlanReport): void {
  const svg = planPicture(report);
  const names = elementsOf(svg);
  expect(names[0]).toBe('svg');
  expect(svg.match(/class="arrow"/g) ?? []).toHaveLength(report.pairs.length);
  const { prefill, decode } = report;
  expect(svg.match(/class="rank"/g)).toHaveLength(prefill.tp * prefill.pp + decode.tp * decode.pp);
  expect(overlaps(textsOf(svg))).toEqual([]);
  const width = Number(/<svg [^>]*width="([\d.]+)"/.exec(svg)![1]);
  for (const { left, right, words } of textsOf(svg))
    expect([words, left >= 0 && right <= width]).toEqual([words, true]);
}

describe('the picture of a plan', () => {
  test('of TP 8 to 4 is the one that a person has looked at', () => {
    const report = planned('llama-3-70b', 'tp=8', 'tp=4', { tokens: 32_768 });
    const golden = new URL('../../golden/plan-llama-3-70b.svg', import.meta.url);
    expect(planPicture(report)).toBe(readFileSync(golden, 'utf8'));
    expectSound(report);
  });

  test.each([
    ['stages at P', 'qwen3-235b-a22b', 'pp=8', 'tp=8'],
    ['stages at both', 'llama-3-70b', 'pp=4,tp=2', 'tp=4,pp=2'],
    ['ranks that send nothing', 'deepseek-v3', 'tp=8', 'tp=2,block=64,kernel-block=16'],
    ['a refusal', 'qwen3-8b', 'tp=2,pp=2', 'tp=3'],
  ])('is sound with %s', (_, model, prefill, decode) => {
    expectSound(planned(model, prefill, decode, { prefix: 100 }));
  });

  test('is sound up to 8 x 8 ranks', () => {
    const tp = fc.constantFrom(1, 2, 4, 8);
    const pp = fc.integer({ min: 1, max: 8 });
    fc.assert(
      fc.property(tp, pp, tp, pp, (prefillTp, prefillPp, decodeTp, decodePp) => {
        fc.pre(prefillTp * prefillPp <= 16 && decodeTp * decodePp <= 16);
        const sides = [`tp=${prefillTp},pp=${prefillPp}`, `tp=${decodeTp},pp=${decodePp}`] as const;
        expectSound(planned(modelWith(94, 8, 128), ...sides, { tokens: 64 }));
      }),
      { seed: 42, numRuns: 40 },
    );
  });

  test('says why a transfer is refused, and draws no arrow', () => {
    const report = planned('qwen3-8b', 'dtype=fp8', 'tp=2');
    const svg = planPicture(report);
    expect(svg).toContain('class="refused"');
    const words = [...svg.matchAll(/<text[^>]*fill="#9b1c1c"[^>]*>([^<]*)</g)].map((hit) => hit[1]).join(' ');
    expect(words).toBe(`refused ${report.refused}`);
  });

  test('draws arrows as thick as their bytes', () => {
    const report = planned(modelWith(4, 4, 8), 'tp=1,stages=3+1', 'tp=1');
    const widths = [...planPicture(report).matchAll(/stroke-width="([\d.]+)"/g)].map((hit) => Number(hit[1]));
    expect(widths).toEqual([12, 4]);
  });

  test('keeps names from outside harmless', () => {
    const report = { ...planned('qwen3-8b', 'tp=1', 'tp=1'), model: '<script>&"a"' };
    expect(planPicture(report)).toContain('&lt;script&gt;&amp;&quot;a&quot;');
    expectSound(report);
  });
});
