import { isRecord } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import { describeValue } from '../base/thrown.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import type { Scenario } from '../sim/scenario.ts';
import { readTape, type TapeEntry, tapeRows } from '../sim/tape.ts';
import { findPasted, hasReplayLine, objectLength, PASTED_MAX, type PastedLine } from './pasted.ts';
import type { Who } from './run.ts';
import { readScenario } from './scenario-file.ts';
import { SCENARIO_NAMES, scenarioByName } from './scenario-names.ts';

/** One run, told in a line or a file: which scenario, which seed or tape, and the digest it had. */
export interface Replay extends Who {
  readonly scenario: Scenario;
  readonly source: { readonly seed: number } | { readonly tape: readonly TapeEntry[] };
  /** '' when none was given: then nothing is compared. */
  readonly digest: string;
}

/** 1 told draws by numbers of one cluster; 2 tells them by names. */
const FORM = 2;
/** What to do with a line of another form. */
const ANOTHER_FORM =
  'replay it with the version that printed it, or find the failure again with check and take the line of this version (seeds mean other schedules in another form)';
const PREFIX = `mor${FORM}.`;
/** Far beyond any line that a shell passes on. */
const LINE_CHARACTERS_MAX = 4_000_000;
const NAME_CHARACTERS_MAX = 80;

/** The scenario by its name when it is one of ours (but for what a flag may have changed), else whole. */
function replayObject(replay: Replay): Record<string, unknown> {
  const { scenario, source, digest, connector, module } = replay;
  const named = scenarioByName(scenario.name);
  const { mode, faults, engine } = scenario;
  const known =
    named !== undefined && JSON.stringify({ ...named, mode, faults, engine }) === JSON.stringify(scenario);
  return {
    version: FORM,
    scenario: known ? scenario.name : scenario,
    ...(known ? { mode, faults } : {}),
    ...(known && engine !== named.engine ? { engine } : {}),
    ...(connector === scenario.connector ? {} : { connector }),
    ...(module === undefined ? {} : { module }),
    ...('seed' in source ? { seed: source.seed } : { tape: tapeRows(source.tape) }),
    digest,
  };
}

/** @throws UsageError REPLAY-FORM when it does not say which connector ran: the line would run another one. */
export function replayLine(replay: Replay): string {
  whoOf({ ...replay }, 'a replay line', undefined);
  const text = JSON.stringify(replayObject(replay));
  return PREFIX + toBase64Url(encodeUtf8(`${text.slice(0, -1)},"sum":"${sumOf(text)}"}`));
}

/** Of the text without it: tells a line that was changed from one of another version. */
function sumOf(text: string): string {
  return finish(encodeUtf8(text).reduce((hash, byte) => mix(hash, byte), text.length))
    .toString(16)
    .padStart(8, '0');
}

/**
 * A replay from what somebody pasted: the line, a log or mail that holds it, or the JSON object that it stands for.
 *
 * @throws UsageError as readReplayLine and readReplayText do.
 */
export function readReplay(text: string, where: string): Replay {
  const isObject = /^\s*\{/.test(text);
  if (isObject && isReplayObject(text)) return readReplayText(text, where);
  if (isObject && !hasReplayLine(text)) return readReplayText(text, where);
  return readReplayLine(text, where);
}

function isReplayObject(text: string): boolean {
  return isJson(text) && Object.hasOwn(JSON.parse(text) as object, 'version');
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The one replay line that a text holds.
 *
 * @throws UsageError REPLAY-LINE when there is none, when there are several different ones, or when it is cut off or changed.
 */
export function readReplayLine(text: string, where = 'the replay line'): Replay {
  const lines = findPasted(text).map((line) => ({ ...line, read: decodeLine(line) }));
  const [first] = lines;
  if (first === undefined)
    throw new UsageError(
      'REPLAY-LINE',
      `${where}: there is no replay line in it (${PREFIX} and what follows)`,
    );
  if (lines.length > PASTED_MAX)
    throw new UsageError(
      'REPLAY-LINE',
      `${where}: there are more than ${PASTED_MAX} replay lines in it; give one of them`,
    );
  const whole = lines.filter(({ read }) => read.damage === null);
  const broken = lines.filter(
    ({ read, characters }) =>
      read.damage !== null && !whole.some((line) => line.characters.startsWith(characters)),
  );
  const [only] = [...new Set(whole.map(({ read }) => read.text))];
  if (only === undefined) throw new UsageError('REPLAY-LINE', `${where} ${first.read.damage}`);
  const others = [...whole.filter(({ read }) => read.text !== only), ...broken];
  if (others.length > 0)
    throw new UsageError(
      'REPLAY-LINE',
      `${where}: there are different replay lines in it (lines ${rowsOf(whole[0]!, others)}); give one of them`,
    );
  return readReplayText(only, where);
}

const ROWS_SHOWN = 5;

function rowsOf(first: PastedLine, others: readonly PastedLine[]): string {
  const rows = [...new Set([first, ...others].map(({ row }) => row))].sort((a, b) => a - b);
  return rows.slice(0, ROWS_SHOWN).join(', ') + (rows.length > ROWS_SHOWN ? ', ...' : '');
}

type Decoded =
  | { readonly text: string; readonly damage: null }
  | { readonly text: ''; readonly damage: string };

/** The JSON text that a line stands for, or what is wrong with it. */
function decodeLine({ form, characters, wordEnds }: PastedLine): Decoded {
  const damaged = (damage: string): Decoded => ({ text: '', damage });
  if (form !== FORM) return damaged(`is of form ${form}, this version reads ${FORM}: ${ANOTHER_FORM}`);
  const bytes = fromBase64Url(characters.slice(0, LINE_CHARACTERS_MAX));
  const length = objectLength(bytes);
  if (length === undefined) {
    const many =
      wordEnds[0] === 0 ? 'after its prefix' : `or was changed within ${characters.length} characters`;
    return damaged(`is cut off ${many}: copy it whole, from ${PREFIX} to its last character`);
  }
  const used = Math.ceil((length * 4) / 3);
  const changed = damaged('was changed since it was printed: copy it again, from its source');
  if (!wordEnds.includes(used)) return changed;
  const text = decodeUtf8(bytes.subarray(0, length));
  if (text === undefined || toBase64Url(encodeUtf8(text)) !== characters.slice(0, used)) return changed;
  const sum = /,"sum":"([0-9a-f]{8})"\}$/.exec(text);
  if (sum !== null && sumOf(`${text.slice(0, sum.index)}}`) !== sum[1]) return changed;
  return isJson(text) ? { text, damage: null } : changed;
}

/** @throws UsageError REPLAY-JSON, REPLAY-FORM, SCENARIO-FORM or TAPE-FORM with the path of what is wrong. */
export function readReplayText(text: string, where: string): Replay {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw new UsageError('REPLAY-JSON', `${where} is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(
      'REPLAY-FORM',
      `${where} must hold a JSON object with version, scenario, and seed or tape`,
    );
  const object = value as Record<string, unknown>;
  if (object['version'] !== FORM)
    throw new UsageError(
      'REPLAY-FORM',
      `${where}: version must be ${FORM}, not ${describeValue(object['version'])}; ${ANOTHER_FORM}`,
    );
  const digest = object['digest'] ?? '';
  if (typeof digest !== 'string' || !/^([0-9a-f]{16})?$/.test(digest))
    throw new UsageError('REPLAY-FORM', `${where}: digest must be 16 hex digits`);
  const scenario = scenarioOf(object, where);
  const who = whoOf(object, where, scenario.connector);
  return { scenario, source: sourceOf(object, where), digest, ...who };
}

function whoOf(object: Record<string, unknown>, where: string, usual: string | undefined): Who {
  const connector = object['connector'] ?? usual;
  if (typeof connector !== 'string' || connector === '' || connector.length > NAME_CHARACTERS_MAX)
    throw new UsageError(
      'REPLAY-FORM',
      `${where}: connector must be the name of the one that ran (connector of the run), at most ${NAME_CHARACTERS_MAX} characters`,
    );
  const { module } = object;
  if (module === undefined) return { connector };
  if (!isRecord(module) || !isPath(module['path']) || !isHash(module['hash']))
    throw new UsageError(
      'REPLAY-FORM',
      `${where}: module must be { path, hash }, a file and the 16 hex digits of its content`,
    );
  return { connector, module: { path: module['path'], hash: module['hash'] } };
}

const PATH_CHARACTERS_MAX = 4096;

/** Without what would move a terminal's cursor. */
function isPath(value: unknown): value is string {
  return typeof value === 'string' && /^\P{Cc}+$/u.test(value) && value.length <= PATH_CHARACTERS_MAX;
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{16}$/.test(value);
}

function scenarioOf(object: Record<string, unknown>, where: string): Scenario {
  const { scenario, mode, faults, engine } = object;
  if (typeof scenario !== 'string') return readScenario(scenario, `${where}: scenario`);
  const named = scenarioByName(scenario);
  if (named === undefined)
    throw new UsageError(
      'REPLAY-FORM',
      `${where}: scenario ${describeValue(scenario)} is not known; it is one of ${SCENARIO_NAMES.join(', ')}, or a whole one`,
    );
  const changes = {
    mode: mode ?? named.mode,
    faults: faults ?? named.faults,
    engine: engine ?? named.engine,
  };
  return readScenario({ ...named, ...changes }, where);
}

function sourceOf(object: Record<string, unknown>, where: string): Replay['source'] {
  const { seed, tape } = object;
  if (tape !== undefined) return { tape: readTape(tape, `${where}: tape`) };
  if (Number.isSafeInteger(seed) && (seed as number) >= 0) return { seed: seed as number };
  throw new UsageError('REPLAY-FORM', `${where}: needs a tape, or a seed that is an integer from 0 up`);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Without padding, safe in a shell and in a URL. Ours because it must run where neither Buffer nor btoa exists. */
function toBase64Url(bytes: Uint8Array): string {
  let text = '';
  for (let i = 0; i < bytes.length; i += 3) {
    const left = Math.min(3, bytes.length - i);
    const word = (bytes[i]! << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    for (let digit = 0; digit <= left; digit++) text += ALPHABET[(word >>> (18 - 6 * digit)) & 63];
  }
  return text;
}

/** Characters must be of the alphabet; bits beyond the last whole byte are left out. */
function fromBase64Url(text: string): Uint8Array {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let word = 0;
  let bits = 0;
  let filled = 0;
  for (const character of text) {
    word = ((word << 6) | ALPHABET.indexOf(character)) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[filled++] = (word >>> bits) & 0xff;
    }
  }
  return bytes;
}
