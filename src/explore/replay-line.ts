import { UsageError } from '../base/failure.ts';
import { decodeUtf8, encodeUtf8 } from '../base/utf8.ts';
import type { Scenario } from '../sim/scenario.ts';
import { readTape, type TapeEntry, tapeRows } from '../sim/tape.ts';
import { readScenario, scenarioByName } from './scenario-file.ts';

/** One run, told in a line or a file: which scenario, which seed or tape, and the digest it had. */
export interface Replay {
  readonly scenario: Scenario;
  readonly source: { readonly seed: number } | { readonly tape: readonly TapeEntry[] };
  /** '' when none was given: then nothing is compared. */
  readonly digest: string;
}

const PREFIX = 'mor1.';
/** Far beyond any line that a shell passes on. */
const LINE_CHARACTERS_MAX = 4_000_000;

/** The scenario by its name when it is one of ours (but for what a flag may have changed), else whole. */
export function replayObject(replay: Replay): Record<string, unknown> {
  const { scenario, source, digest } = replay;
  const named = scenarioByName(scenario.name);
  const { mode, faults, engine } = scenario;
  const known =
    named !== undefined && JSON.stringify({ ...named, mode, faults, engine }) === JSON.stringify(scenario);
  return {
    version: 1,
    scenario: known ? scenario.name : scenario,
    ...(known ? { mode, faults } : {}),
    ...(known && engine !== named.engine ? { engine } : {}),
    ...('seed' in source ? { seed: source.seed } : { tape: tapeRows(source.tape) }),
    digest,
  };
}

export function replayLine(replay: Replay): string {
  return PREFIX + toBase64Url(encodeUtf8(JSON.stringify(replayObject(replay))));
}

export function isReplayLine(text: string): boolean {
  return text.startsWith(PREFIX);
}

/** @throws UsageError REPLAY-LINE when the line is cut off or changed. */
export function readReplayLine(line: string): Replay {
  if (line.length > LINE_CHARACTERS_MAX)
    throw new UsageError(
      'REPLAY-LINE',
      `the replay line has ${line.length} characters, at most ${LINE_CHARACTERS_MAX} are read`,
    );
  const bytes = fromBase64Url(line.slice(PREFIX.length).trim());
  const text = bytes === undefined ? undefined : decodeUtf8(bytes);
  if (text === undefined)
    throw new UsageError(
      'REPLAY-LINE',
      `the replay line is damaged: it must be ${PREFIX} and then only letters, digits, - and _`,
    );
  return readReplayText(text, 'the replay line');
}

/** @throws UsageError REPLAY-JSON, REPLAY-FORM, SCENARIO-FORM or TAPE-FORM with the path of what is wrong. */
export function readReplayText(text: string, where: string): Replay {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError('REPLAY-JSON', `${where} is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(
      'REPLAY-FORM',
      `${where} must hold a JSON object with version, scenario, and seed or tape`,
    );
  const object = value as Record<string, unknown>;
  if (object['version'] !== 1)
    throw new UsageError(
      'REPLAY-FORM',
      `${where}: version must be 1, not ${JSON.stringify(object['version'])}`,
    );
  const digest = object['digest'] ?? '';
  if (typeof digest !== 'string' || !/^([0-9a-f]{16})?$/.test(digest))
    throw new UsageError('REPLAY-FORM', `${where}: digest must be 16 hex digits`);
  return { scenario: scenarioOf(object, where), source: sourceOf(object, where), digest };
}

function scenarioOf(object: Record<string, unknown>, where: string): Scenario {
  const { scenario, mode, faults, engine } = object;
  if (typeof scenario !== 'string') return readScenario(scenario, `${where}: scenario`);
  const named = scenarioByName(scenario);
  if (named === undefined)
    throw new UsageError('REPLAY-FORM', `${where}: scenario ${JSON.stringify(scenario)} is not known`);
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

function fromBase64Url(text: string): Uint8Array | undefined {
  const bytes: number[] = [];
  let word = 0;
  let bits = 0;
  for (const character of text) {
    const value = ALPHABET.indexOf(character);
    if (value < 0) return undefined;
    word = ((word << 6) | value) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((word >>> bits) & 0xff);
    }
  }
  return Uint8Array.from(bytes);
}
