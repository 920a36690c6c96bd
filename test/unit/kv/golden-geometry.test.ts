import { expect, test } from 'vitest';
import { parseTensor } from '../../../src/kv/parse.ts';
import {
  codeFor,
  type GoldenTensor,
  geometryOf,
  listedDifferences,
  outcomeOf,
  type Refused,
  readGolden,
  registeredOf,
  remoteView,
  specOf,
  tensorOf,
} from './golden.ts';

interface Described {
  readonly ok: true;
  readonly geometry: { readonly [field: string]: unknown };
  readonly regions: readonly object[];
}

interface Case {
  readonly id: string;
  readonly input: GoldenTensor & { readonly remote_num_blocks: number | null };
  readonly expect: { readonly [revision: string]: Described | Refused };
}

const cases = readGolden<Case>('layout-geometry.json');

/** Those who may speak for a case: the first revision, but for the tensors of four axes, which only later ones know. */
function spokesmen({ input, expect: said }: Case): readonly (Described | Refused)[] {
  return input.shape.length === 4 ? [said['r3']!, said['r2']!] : [said['r1']!];
}

function described(input: Case['input']): { geometry: object; regions: object[] } {
  const tensor = tensorOf(input);
  const view = parseTensor(tensor, specOf(input));
  const remote = remoteView(input, input.remote_num_blocks);
  return { geometry: geometryOf(input, view, remote), regions: registeredOf(tensor, view) };
}

/** What differs, or '' when the view says what upstream says. */
function differenceOf(golden: Case): string {
  const ours = outcomeOf(() => described(golden.input));
  const differences = spokesmen(golden).map((said) => differenceFrom(said, ours));
  return differences.includes('') ? '' : differences[0]!;
}

function differenceFrom(said: Described | Refused, ours: unknown): string {
  if (!said.ok) return ours === codeFor(said) ? '' : `${JSON.stringify(ours)} for ${said.error}`;
  if (typeof ours === 'string') return ours;
  const { geometry, regions } = ours as { geometry: Record<string, unknown>; regions: object[] };
  const fields = Object.keys(said.geometry).filter((field) => said.geometry[field] !== geometry[field]);
  const differs = fields.map((field) => `${field} ${geometry[field]} for ${said.geometry[field]}`);
  if (JSON.stringify(regions) !== JSON.stringify(said.regions)) differs.push(JSON.stringify(regions));
  return differs.join(', ');
}

test('every tensor reads as upstream reads it, but for the differences that docs/LAYOUTS.md gives reasons for', () => {
  const differences = new Map(cases.map((golden) => [golden.id, differenceOf(golden)]));
  const differing = cases.filter(({ id }) => differences.get(id) !== '').map(({ id }) => id);
  expect(differing.map((id) => `${id}: ${differences.get(id)}`)).toEqual(
    listedDifferences('G').map((id) => `${id}: ${differences.get(id) || 'no difference'}`),
  );
  expect(cases).toHaveLength(207);
});
