import { UsageError } from '../base/failure.ts';
import type { RunOptions } from '../explore/run.ts';
import { readScenario } from '../explore/scenario-file.ts';
import { SCENARIO_NAMES, scenarioByName } from '../explore/scenario-names.ts';
import { FIDELITIES, type Fidelity } from '../io/engine/quirks.ts';
import type { Scenario } from '../sim/scenario.ts';
import { SPECIMEN_NAMES, SPECIMENS, specimenByName, specimenOf } from '../zoo/registry.ts';
import type { OptionRow } from './command.ts';
import { readText } from './files.ts';
import { isGuestPath, PYTHON_OPTION } from './guest.ts';
import { MODE_OPTION, refuseClash } from './options.ts';
import { ownKindOf } from './own-kinds.ts';

/** Which scenario a command line means. */

export interface ScenarioFlags {
  readonly mode?: 'read' | 'write' | 'both';
  readonly engine?: Fidelity;
  readonly connector?: string;
  readonly fault?: string;
  readonly guest?: string;
  readonly python?: string;
}

export const SCENARIO_ARGUMENT = `a scenario file (JSON; - for standard input), or one of: ${SCENARIO_NAMES.join(', ')}`;

export const SCENARIO_OPTIONS: readonly OptionRow[] = [
  MODE_OPTION,
  {
    flag: '--engine <fidelity>',
    text: 'the MoRI-IO engine as it is (mori), or without its quirks',
    choices: FIDELITIES,
  },
  {
    flag: '--connector <name>',
    text: `the protocol under attack: ${SPECIMENS.map(({ name, summary }) => `${name} (${summary})`).join(', ')}, or the path of a module of your own, ./mine.mjs or ./mine.ts`,
  },
  {
    flag: '--guest <file>',
    text: 'a connector in Python instead, by the file that describes it (docs/GUESTS.md)',
  },
  PYTHON_OPTION,
  {
    flag: '--fault <ids>',
    text: `known faults to switch on, separated by commas, or all, or none (default: all); ${bugList()}`,
  },
];

/** What runs: a scenario, and the connector in it if it is somebody's own. */
export interface Attack {
  readonly scenario: Scenario;
  readonly options: Pick<RunOptions, 'parts'>;
}

/** @throws UsageError as scenarioOf, loadOwnConnector and loadGuest do. */
export async function attackOf(file: string | undefined, flags: ScenarioFlags): Promise<Attack> {
  const { fault, guest } = flags;
  refuseClash(
    guest !== undefined && flags.connector !== undefined,
    'a guest is the connector: give either --guest or --connector',
  );
  const named = guest ?? flags.connector;
  const kind = named === undefined || specimenByName(named) !== undefined ? undefined : ownKindOf(named);
  if (guest !== undefined && (kind === undefined || !isGuestPath(guest)))
    throw new UsageError(
      'FLAG',
      `--guest ${guest}: it must be a guest description, a file whose name ends in .json`,
    );
  if (named === undefined || kind === undefined) return { scenario: scenarioOf(file, flags), options: {} };
  refuseClash(
    fault !== undefined,
    `--fault switches known faults, and ${named} is not among those that have some: ${bugList()}`,
  );
  const own = await kind.load(named, flags.python);
  const base = file === undefined ? own.scenario : scenarioOf(file, {});
  const scenario = { ...base, mode: flags.mode ?? base.mode, engine: flags.engine ?? base.engine };
  return { scenario, options: { parts: own.parts } };
}

export function scenarioOf(file: string | undefined, flags: ScenarioFlags): Scenario {
  const named = file === undefined ? undefined : scenarioByName(file);
  refuseClash(
    file !== undefined && flags.connector !== undefined,
    'a scenario names its own connector: give either the scenario or --connector',
  );
  const attacked = specimenByName(flags.connector ?? 'shipped');
  if (attacked === undefined)
    throw new UsageError(
      'FLAG',
      `--connector ${flags.connector}: it is none of ${SPECIMEN_NAMES.join(', ')}, and no path of a module such as ./mine.mjs`,
    );
  const base = file === undefined ? attacked.scenario : (named ?? readScenarioFile(file));
  const faults = faultsOf(base, flags.fault);
  return { ...base, mode: flags.mode ?? base.mode, engine: flags.engine ?? base.engine, faults };
}

/** The switched-on bugs: of the flag, of the scenario, or all that the connector is known for. */
function faultsOf(base: Scenario, flag: string | undefined): readonly string[] {
  const known = Object.keys(specimenOf(base).bugs);
  if (flag === undefined) return base.faults.length > 0 ? base.faults : known;
  refuseClash(
    known.length === 0,
    `--fault switches known faults of a connector, and ${base.connector} has none: ${bugList()}`,
  );
  if (flag === 'all') return known;
  if (flag === 'none') return [];
  const ids = flag.split(',');
  const wrong = ids.find((id) => !known.includes(id));
  if (wrong !== undefined)
    throw new UsageError(
      'FLAG',
      `--fault ${flag}: ${JSON.stringify(wrong)} is not a fault of ${base.connector}; use ${known.join(', ')}, all or none`,
    );
  return ids;
}

/** Who has known bugs, and which: `as-written has F1, F2`. */
function bugList(): string {
  const buggy = SPECIMENS.filter(({ bugs }) => Object.keys(bugs).length > 0);
  return buggy.map(({ name, bugs }) => `${name} has ${Object.keys(bugs).join(', ')}`).join('; ');
}

function readScenarioFile(path: string): Scenario {
  const text = readText(path, 'scenario');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UsageError('SCENARIO-JSON', `${path} is not JSON: ${(error as Error).message}`);
  }
  return readScenario(value, path);
}
