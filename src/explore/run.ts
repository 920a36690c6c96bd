import { UsageError } from '../base/failure.ts';
import { finish, mix } from '../base/mix.ts';
import { describeThrown, describeValue } from '../base/thrown.ts';
import type { Connector } from '../connector/plug.ts';
import { STRAY_KINDS } from '../faults/strays.ts';
import type { Fabric } from '../io/fabric.ts';
import { NICS } from '../io/profiles.ts';
import type { ModuleRef } from '../node/user-module.ts';
import { CELL_GRAIN } from '../sim/cluster.ts';
import { drawProfile, drawSetup, PLAIN_PROFILE, type Profile } from '../sim/draws.ts';
import type { WorldMemory } from '../sim/memory.ts';
import { CHECK_NETWORK } from '../sim/network.ts';
import { layPrompt } from '../sim/prompts.ts';
import type { RunObserver, RunResult } from '../sim/run-spec.ts';
import type { Scenario } from '../sim/scenario.ts';
import { replayTape, seededTape, type Tape, type TapeEntry } from '../sim/tape.ts';
import { createWasmFabric } from '../sim/wasm-fabric.ts';
import { runWorld } from '../sim/world.ts';
import { isMessageName, oddityOfForms } from '../wire/peer-codec.ts';
import { specimenOf } from '../zoo/registry.ts';
import type { Parts } from '../zoo/specimen.ts';

/** Steps after which a check takes a run for endless; a long one has a few thousand. */
export const CHECK_STEPS_MAX = 60_000;
/** Virtual time after which a request without an end is taken for stuck: far beyond every limit of the protocol. */
export const CHECK_MICROS_MAX = 1_000_000_000_000;

export interface RunOptions {
  /** Keep the tape's entries and the run's steps. */
  readonly record?: boolean;
  /** Instead of the connector that the scenario names: yours. */
  readonly parts?: () => Parts;
  /** What moves the bytes, instead of the kernels; asked once for each run, and holds no regions then. */
  readonly fabric?: () => Fabric;
  readonly observer?: RunObserver;
}

/** Who ran, for a replay line. */
export interface Who {
  /** The name of the connector; one of your own that kept the name of ours is told apart. */
  readonly connector: string;
  /** Where it was loaded from; absent when it was not loaded from a file. */
  readonly module?: ModuleRef;
}

export interface Run extends Who {
  readonly result: RunResult;
  /** Who ran. */
  readonly parts: Parts;
  readonly tape: Tape;
}

/** Highest first seed of a campaign: as many again may follow. */
export const SEED_FROM_MAX = 2 ** 52;

/** @throws UsageError SEED */
export function checkSeed(seed: unknown, most = Number.MAX_SAFE_INTEGER): void {
  if (!Number.isSafeInteger(seed) || (seed as number) < 0 || (seed as number) > most)
    throw new UsageError('SEED', `a seed is an integer from 0 to ${most}, not ${describeValue(seed)}`);
}

/** Where the draws of a schedule begin. Every bit of the seed counts; below 2^32 there is no high word to fold in. */
export function rootOf(seed: number): number {
  const high = Math.floor(seed / 0x1_0000_0000);
  const low = mix(0x6b76, seed % 0x1_0000_0000);
  return finish(high === 0 ? low : mix(low, high));
}

/** One schedule of a scenario, drawn from a seed. @throws UsageError SEED */
export function runSeed(
  memory: WorldMemory,
  scenario: Scenario,
  seed: number,
  options: RunOptions = {},
): Run {
  checkSeed(seed);
  const mixed = rootOf(seed);
  return run(
    memory,
    scenario,
    seededTape(mixed, options.record ?? false),
    drawProfile(scenario, mixed),
    false,
    options,
  );
}

/** The schedule that a tape tells. */
export function runTape(
  memory: WorldMemory,
  scenario: Scenario,
  entries: readonly TapeEntry[],
  options: RunOptions = {},
): Run {
  return run(memory, scenario, replayTape(entries), PLAIN_PROFILE, true, options);
}

function run(
  memory: WorldMemory,
  scenario: Scenario,
  tape: Tape,
  profile: Profile,
  replaying: boolean,
  options: RunOptions,
): Run {
  const { blockTokens, blocksPerEngine: blocks, batchTokensMax } = scenario;
  const { strays } = scenario.hazards;
  const setup = drawSetup(scenario, tape);
  const given = partsOfCaller(options.parts);
  const parts = given ?? partsOf(scenario);
  const result = runWorld({
    setup,
    layPrompts: () => setup.requests.map((request) => layPrompt(setup, request, blockTokens, memory)),
    limits: { blockTokens, blocks, batchTokensMax, batchRequestsMax: 8 },
    grain: CELL_GRAIN,
    network: CHECK_NETWORK,
    nic: NICS.plain,
    fidelity: scenario.engine,
    fabric: options.fabric?.() ?? createWasmFabric(memory),
    ...parts,
    tape,
    replaying,
    profile,
    nicFaults: scenario.hazards.nic,
    strayKinds: strays === 'none' ? 0 : strays === 'notUtf8' ? 1 : STRAY_KINDS,
    memory,
    record: options.record ?? false,
    stepsMax: CHECK_STEPS_MAX,
    microsMax: CHECK_MICROS_MAX,
    ...(options.observer === undefined ? {} : { observer: options.observer }),
  });
  return { result, ...whoIs(scenario, given), parts, tape };
}

/** What a replay line says of who ran. */
export function whoRuns(scenario: Scenario, { parts }: RunOptions): Who {
  return whoIs(scenario, partsOfCaller(parts));
}

/** Of somebody who ran, what a replay line says of them. */
export function whoRan({ connector, module }: Who): Who {
  return module === undefined ? { connector } : { connector, module };
}

function whoIs(scenario: Scenario, given: Parts | undefined): Who {
  if (given === undefined) return { connector: scenario.connector };
  return whoRan({ ...given, connector: nameOf(scenario, given) });
}

function nameOf(scenario: Scenario, given: Parts): string {
  const { connector, policy } = partsOf(scenario);
  if (given.connector === connector && given.policy === policy) return scenario.connector;
  const { name } = given.connector;
  return name === scenario.connector ? `${name}, changed` : name;
}

/** @throws UsageError PARTS when there is no connector or no policy among them. */
function partsOfCaller(make: RunOptions['parts']): Parts | undefined {
  if (make === undefined) return undefined;
  let parts: Parts;
  try {
    parts = make();
  } catch (thrown) {
    throw new UsageError('PARTS', `parts() threw ${describeThrown(thrown)}`);
  }
  const wanted = { connector: ['createScheduler', 'createWorker'], policy: ['create', 'choose'] } as const;
  for (const [part, methods] of Object.entries(wanted)) {
    const given = parts?.[part as keyof Parts] as unknown as Readonly<Record<string, unknown>> | undefined;
    const missing = methods.find((method) => typeof given?.[method] !== 'function');
    if (missing !== undefined)
      throw new UsageError(
        'PARTS',
        `parts() must return { connector, policy }: the ${part} has no ${missing}()`,
      );
  }
  checkTables(parts.connector);
  return parts;
}

/** Tables and lists that were looked at: a campaign shows the same ones with every schedule. */
const FINE = new WeakSet<object>();

/** @throws UsageError PARTS when what the connector says of itself is odd: its table of messages, its goals. */
function checkTables({ messages, goals }: Connector): void {
  if (messages !== undefined && !FINE.has(messages)) {
    const odd = oddityOfForms(messages);
    if (odd !== '') throw new UsageError('PARTS', `the connector's messages: the table ${odd}`);
    FINE.add(messages);
  }
  if (goals === undefined || FINE.has(goals)) return;
  if (!Array.isArray(goals) || goals.length > GOALS_MAX || !goals.every(isMessageName))
    throw new UsageError(
      'PARTS',
      `the connector's goals must be a list of at most ${GOALS_MAX} names of letters, digits, _, - and .`,
    );
  FINE.add(goals);
}

const GOALS_MAX = 200;

function partsOf(scenario: Scenario): Parts {
  return specimenOf(scenario).parts(scenario.faults);
}
