import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { OURS } from './golden-ranks-ours.ts';
import { answerTo, expectedOf, type Input, type Outcome } from './golden-ranks-sections.ts';

/**
 * Every case of ranks.json: ours agrees with upstream, or gives what the file says is better, or differs on purpose.
 * docs/WIRE.md lists the last two kinds, and must list exactly them.
 */

interface Case {
  readonly id: string;
  readonly section: string;
  readonly name: string;
  readonly input: Input;
  readonly expect: Outcome;
  readonly robust?: string;
}

const textOf = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

const CASES: readonly Case[] = JSON.parse(textOf('test/golden/ranks.json')).cases;
const PAGE = textOf('docs/WIRE.md');

/** Cases of each section: agree with upstream, give what the file advises, differ on purpose. */
const COUNTS: { readonly [section: string]: readonly [number, number, number] } = {
  remote_tp_rank: [83, 0, 0],
  port_offset: [20, 0, 16],
  handshake_ports: [4, 3, 0],
  notify_ports: [5, 3, 5],
  expected_ack_count: [19, 0, 0],
  ack_sequence: [9, 2, 0],
  hetero_tp_kv_heads: [12, 0, 5],
  engine_name: [5, 0, 0],
  eager_targets: [6, 0, 0],
  read_source: [10, 0, 0],
  round_robin: [1, 2, 0],
  proxy_round_robin: [1, 3, 2],
  zmq_address: [28, 8, 0],
  request_id: [11, 4, 11],
  request_id_to_peer: [2, 0, 0],
  strip_suffix: [9, 0, 0],
  mode: [9, 3, 0],
  request_meta: [9, 3, 0],
  read_block_choice: [2, 1, 0],
  matched_tokens: [6, 1, 4],
};

type Kind = 'agrees' | 'advised' | 'on purpose';

function kindOf({ section, name, input, expect: upstream, robust }: Case): Kind {
  if (isDeepStrictEqual(answerTo(section, name, input), expectedOf(upstream))) return 'agrees';
  return robust === undefined ? 'on purpose' : 'advised';
}

/** The case ids in the table below a heading of the page. */
function listedIn(page: string, heading: string): string[] {
  const from = page.indexOf(`\n## ${heading}\n`);
  if (from < 0) return [];
  const to = page.indexOf('\n## ', from + 1);
  const rows = page
    .slice(from, to < 0 ? undefined : to)
    .split('\n')
    .filter((line) => line.startsWith('| R'));
  return rows.flatMap((row) => row.split('|')[1]!.match(/R\d{3}/g) ?? []);
}

/** What is wrong with the page: differences it does not list, and cases it lists that are none. */
function mistakesOf(page: string): string[] {
  const kinds = new Map(CASES.map((one) => [one.id, kindOf(one)]));
  return (
    [
      ['advised', 'Where the golden file says what is better'],
      ['on purpose', 'Deliberate differences'],
    ] as const
  ).flatMap(([kind, heading]) => {
    const listed = listedIn(page, heading);
    const missing = [...kinds].filter(([id, own]) => own === kind && !listed.includes(id));
    const wrong = listed.filter((id) => kinds.get(id) !== kind);
    const twice = listed.filter((id, index) => listed.indexOf(id) !== index);
    return [
      ...missing.map(([id]) => `${id} is not listed`),
      ...wrong.map((id) => `${id} is listed and does not differ so`),
      ...twice.map((id) => `${id} is listed twice`),
    ];
  });
}

describe('ranks.json', () => {
  test.each(Object.entries(COUNTS))('%s: %j agree, are advised, differ', (section, counts) => {
    const kinds = CASES.filter((one) => one.section === section).map(kindOf);
    const countOf = (kind: Kind): number => kinds.filter((own) => own === kind).length;
    expect([countOf('agrees'), countOf('advised'), countOf('on purpose')]).toEqual(counts);
  });

  test('has no other sections, and 327 cases', () => {
    expect(CASES.filter(({ section }) => !Object.hasOwn(COUNTS, section))).toEqual([]);
    expect(CASES).toHaveLength(327);
    expect(new Set(CASES.map(({ id }) => id)).size).toBe(327);
  });

  test.each(CASES.map((one) => [one.id, one.section, one.name, one] as const))(
    '%s %s: %s',
    (id, section, name, { input, expect: upstream }) => {
      const expected = expectedOf(upstream);
      const wanted = OURS[id]?.(expected) ?? expected;
      expect(answerTo(section, name, input)).toEqual(wanted);
    },
  );

  test('differs in exactly the cases for which our answer is written down', () => {
    const different = CASES.filter((one) => kindOf(one) !== 'agrees').map(({ id }) => id);
    expect(Object.keys(OURS).sort()).toEqual(different.sort());
  });
});

/** The same value with its first leaf changed. */
function changed(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [0] : [changed(value[0]), ...value.slice(1)];
  if (typeof value === 'object' && value !== null) {
    const [[key, inner] = ['extra', 0], ...rest] = Object.entries(value);
    return Object.fromEntries([[key, changed(inner)], ...rest]);
  }
  if (typeof value === 'number') return value + 1;
  return typeof value === 'boolean' ? !value : `${String(value)}?`;
}

test('a change of any single field of what upstream gave is noticed', () => {
  const agreeing = CASES.filter((one) => kindOf(one) === 'agrees');
  let changes = 0;
  for (const one of agreeing) {
    for (const field of Object.keys(one.expect).filter((name) => name !== 'error')) {
      const harmed = { ...one.expect, [field]: changed(one.expect[field]) };
      // The class of an error is not compared, wherever it stands.
      if (isDeepStrictEqual(expectedOf(harmed), expectedOf(one.expect))) continue;
      expect([one.id, field, kindOf({ ...one, expect: harmed })]).not.toContain('agrees');
      changes++;
    }
  }
  expect(changes).toBeGreaterThan(450);
});

describe('docs/WIRE.md', () => {
  test('lists every difference, and nothing else', () => {
    expect(mistakesOf(PAGE)).toEqual([]);
  });

  test.each([
    ['a difference is not listed', PAGE.replace('R140, R142', 'R142'), ['R140 is not listed']],
    ['an advised one is not listed', PAGE.replace('| R326 |', '| |'), ['R326 is not listed']],
    [
      'a case that agrees is listed',
      PAGE.replace('R140, R142', 'R139, R140, R142'),
      ['R139 is listed and does not differ so'],
    ],
    ['a case is listed twice', PAGE.replace('R140, R142', 'R140, R142, R142'), ['R142 is listed twice']],
    [
      'a case is in the wrong table',
      PAGE.replace('R140, R142', 'R140, R142, R326'),
      ['R326 is listed and does not differ so'],
    ],
  ])('is found wrong when %s', (_, page, mistakes) => {
    expect(page).not.toBe(PAGE);
    expect(mistakesOf(page)).toEqual(mistakes);
  });
});
