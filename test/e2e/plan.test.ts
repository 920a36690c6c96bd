import { spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import type { PlanReport } from '../../src/report/plan-report.ts';
import { runCommandLine, type Said } from '../helpers/command-line.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const folder = mkdtempSync(`${tmpdir()}/moriarty-plan-`);
afterAll(() => rmSync(folder, { recursive: true }));

const plan = (...args: string[]): Promise<Said> => runCommandLine('plan', ...args);

function file(name: string, value: unknown): string {
  const path = `${folder}/${name}`;
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
  return path;
}

const CONFIG = {
  model_type: 'qwen3',
  num_hidden_layers: 36,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  hidden_size: 4096,
  head_dim: 128,
  torch_dtype: 'bfloat16',
};

describe('plan', () => {
  test('prints one JSON document with the promised fields', async () => {
    const args = ['--model', 'llama-3-70b', '--prefill', 'tp=8', '--decode', 'tp=4', '--tokens', '32768'];
    const { code, out, err } = await plan(...args, '--json');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const report = JSON.parse(out) as PlanReport;
    expect(report).toMatchObject({
      model: 'llama-3-70b',
      mode: 'write',
      tokens: 32_768,
      bytesPerToken: 327_680,
      totalBytes: 32_768 * 327_680,
      refused: null,
    });
    expect(report.pairs).toHaveLength(8);
    expect(Object.keys(report.pairs[0]!).sort()).toEqual([
      'bytes',
      'decodeRank',
      'heads',
      'layers',
      'micros',
      'prefillRank',
      'runs',
      'runsBefore',
      'workRequests',
    ]);
    expect(report.slowestMicros).toBe(report.pairs[0]!.micros);
  });

  test('reads a config.json', async () => {
    const path = file('config.json', CONFIG);
    expect(JSON.parse((await plan('--model', path, '--json')).out)).toMatchObject({
      model: 'qwen3',
      bytesPerToken: 147_456,
    });
    const bare = file('bare.json', { ...CONFIG, torch_dtype: undefined });
    expect((await plan('--model', bare)).err).toMatch(/bare\.json: torch_dtype: is missing; .*--kv-dtype/);
    expect(JSON.parse((await plan('--model', bare, '--kv-dtype', 'fp8', '--json')).out)).toMatchObject({
      bytesPerToken: 73_728,
    });
  });

  test('answers a transfer that cannot be with its cause, and exits 0', async () => {
    const { code, out } = await plan('--model', 'qwen3-8b', '--prefill', 'tp=3');
    expect(code).toBe(0);
    expect(out).toMatch(/^refused: P: 8 KV heads cannot be split/m);
    expect(JSON.parse((await plan('--model', 'qwen3-8b', '--prefill', 'tp=3', '--json')).out)).toMatchObject({
      pairs: [],
      refused: expect.stringMatching(/^P: 8 KV heads/),
    });
  });

  test('draws the plan, over an older picture too, and leaves nothing else behind', async () => {
    mkdirSync(`${folder}/svg`);
    const path = `${folder}/svg/plan.svg`;
    writeFileSync(path, 'old');
    expect((await plan('--model', 'qwen3-8b', '--decode', 'tp=2', '--svg', path)).code).toBe(0);
    const svg = readFileSync(path, 'utf8');
    expect(svg).toMatch(/^<svg [\s\S]*<\/svg>\n$/);
    expect(svg.match(/class="arrow"/g)).toHaveLength(2);
    expect(readdirSync(`${folder}/svg`)).toEqual(['plan.svg']);
    symlinkSync(path, `${folder}/svg/link.svg`);
    expect((await plan('--model', 'qwen3-8b', '--svg', `${folder}/svg/link.svg`)).code).toBe(0);
    expect(lstatSync(`${folder}/svg/link.svg`).isSymbolicLink()).toBe(true);
    expect(readFileSync(path, 'utf8').match(/class="arrow"/g)).toHaveLength(1);
  });

  test('explains itself', async () => {
    const { code, out } = await plan('--help');
    expect(code).toBe(0);
    expect(out).toMatch(/Usage: moriarty plan/);
    expect(out).toMatch(/kernel-block/);
    expect(out).toMatch(/Exit codes:/);
  });

  test('does what docs/PLAN.md shows', async () => {
    const page = readFileSync(`${ROOT}docs/PLAN.md`, 'utf8');
    const examples = [...page.matchAll(/^```\n\$ npx moriarty plan (.*)\n([\s\S]*?)^```$/gm)];
    expect(examples.length).toBeGreaterThanOrEqual(3);
    for (const [, args, shown] of examples) expect((await plan(...args!.split(' '))).out).toBe(shown);
  });
});

describe('what is wrong with an input is said in one line and exits 2', () => {
  const model = ['--model', 'qwen3-8b'];
  const cases: [string, () => string[], RegExp][] = [
    ['no model', () => [], /required option '--model/],
    [
      'a model that is none',
      () => ['--model', 'gpt-5'],
      /MODEL: "gpt-5" is neither a file nor a known model; .*llama-3-8b/,
    ],
    ['a missing file', () => ['--model', `${folder}/nowhere.json`], /FILE: .*nowhere\.json: cannot be read/],
    ['a folder', () => ['--model', folder], /FILE: .*cannot be read/],
    [
      'a file that is not JSON',
      () => ['--model', file('a.json', '{\n"a":\n}')],
      /MODEL-JSON: .*a\.json is not JSON/,
    ],
    [
      'a config field of the wrong kind',
      () => ['--model', file('b.json', { ...CONFIG, num_hidden_layers: '36' })],
      /MODEL-CONFIG: .*b\.json: num_hidden_layers: "36" is not an integer/,
    ],
    [
      'a nested config field',
      () => ['--model', file('c.json', { text_config: { ...CONFIG, head_dim: 0 } })],
      /c\.json: text_config\.head_dim: 0 is not an integer/,
    ],
    ['a key that is none', () => [...model, '--prefill', 'tp=8,dp=2'], /SIDE: --prefill: "dp" is not a key/],
    ['a key given twice', () => [...model, '--decode', 'tp=8,tp=2'], /SIDE: --decode: tp is given twice/],
    [
      'a number that is none',
      () => [...model, '--decode', 'block=x'],
      /SIDE: --decode block=x: must be an integer/,
    ],
    [
      'a layout that is none',
      () => [...model, '--decode', 'layout=x'],
      /SIDE: --decode layout=x: unknown; use one of/,
    ],
    ['a layout of another cache', () => [...model, '--decode', 'layout=mla'], /SIDE: .*has a K and V cache/],
    ['blocks too few', () => [...model, '--decode', 'blocks=9'], /SIDE: --decode blocks=9: 144 tokens fit/],
    [
      'kernel blocks that do not divide',
      () => [...model, '--prefill', 'kernel-block=5'],
      /must divide block=16/,
    ],
    ['more stages than layers', () => [...model, '--prefill', 'pp=37'], /SIDE: --prefill pp=37: .*36 layers/],
    [
      'a type it cannot have',
      () => [...model, '--kv-dtype', 'fp8_ds_mla'],
      /KV-DTYPE: fp8_ds_mla is for latent/,
    ],
    ['no tokens', () => [...model, '--tokens', '0'], /--tokens.*integer from 1/],
    [
      'a prefix of everything',
      () => [...model, '--tokens', '64', '--prefix', '64'],
      /FLAG: --prefix 64: must be below/,
    ],
    ['a mode that is none', () => [...model, '--mode', 'push'], /--mode.*push/],
    ['a NIC that is none', () => [...model, '--nic', 'modem'], /--nic.*plain, cx7, thor2/],
    ['a switch that is none', () => [...model, '--chunking', 'maybe'], /--chunking.*on, off/],
    ['an argument too many', () => [...model, 'more'], /too many arguments/],
    [
      'a picture that cannot be written',
      () => [...model, '--svg', `${folder}/no/such/plan.svg`],
      /FILE: .*plan\.svg: cannot be written/,
    ],
    [
      'a picture over a folder',
      () => [...model, '--svg', `${folder}/taken`],
      /FILE: .*taken: cannot be written/,
    ],
  ];
  test.each(cases)('%s', async (_, args, complaint) => {
    mkdirSync(`${folder}/taken`, { recursive: true });
    const { code, out, err } = await plan(...args());
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(complaint);
    expect(err.trim().split('\n')).toHaveLength(1);
    expect(readdirSync(folder).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect(existsSync(`${folder}/no`)).toBe(false);
  });
});
