import * as z from 'zod';
import { UsageError } from '../base/failure.ts';
import { greatest } from '../base/lists.ts';
import { describeValue } from '../base/thrown.ts';
import { HAZARDS, type Hazard, type Hazards } from '../faults/hazards.ts';
import { FIDELITIES } from '../io/engine/quirks.ts';
import type { Scenario } from '../sim/scenario.ts';
import { SPECIMEN_NAMES, specimenByName } from '../zoo/registry.ts';

/** Scenarios from outside: every field is checked, and an error names its path in the file. */

const tpSizes = z.array(z.int().min(1).max(8)).min(1).max(8);
const dpSizes = z.array(z.int().min(1).max(4)).min(1).max(4);

function hazardValue(hazard: Hazard): z.ZodType {
  if (hazard.kind === 'switch') return z.boolean();
  if (hazard.kind === 'choice') return z.enum(hazard.values);
  return z.array(z.enum(hazard.values)).max(hazard.values.length);
}

const hazards = z.strictObject(
  Object.fromEntries(HAZARDS.map((hazard) => [hazard.name, hazardValue(hazard)])),
) as unknown as z.ZodType<Hazards>;

/** Far beyond what any connector of the registry has. */
const [FAULTS_MAX, FAULT_CHARACTERS_MAX] = [64, 40];

/** Bounds keep every cluster within the memory of a check and every run within seconds. */
const scenario = z.strictObject({
  name: z.string().min(1).max(80),
  connector: z.enum(SPECIMEN_NAMES),
  faults: z.array(z.string().max(FAULT_CHARACTERS_MAX)).max(FAULTS_MAX),
  mode: z.enum(['read', 'write', 'both']),
  prefillInstances: z.int().min(1).max(3),
  decodeInstances: z.int().min(1).max(3),
  prefillTp: tpSizes,
  decodeTp: tpSizes,
  prefillDp: dpSizes,
  decodeDp: dpSizes,
  layers: z.array(z.int().min(1).max(6)).min(1).max(6),
  unequalLayers: z.boolean(),
  layouts: z.enum(['mixed', 'equal']),
  heads: z.int().min(1).max(8),
  blockTokens: z.int().min(1).max(16),
  blocksPerEngine: z.int().min(1).max(32),
  batchTokensMax: z.int().min(1).max(256),
  requestsMax: z.int().min(1).max(16),
  promptTokensMax: z.int().min(1).max(64),
  outputTokensMax: z.int().min(1).max(16),
  ordinaryRequests: z.boolean(),
  sharedPrefixes: z.boolean(),
  lookAhead: z.boolean(),
  queuePairsMax: z.int().min(1).max(4),
  sendQueueDepths: z.array(z.int().min(1).max(4096)).min(1).max(8),
  engine: z.enum(FIDELITIES).default('sound'),
  notifications: z.boolean().default(false),
  hazards,
});

/** Bytes of registered memory that one check may draw; the world's memory holds them with room to spare. */
const CHECK_REGION_BYTES_MAX = 3_500_000;
const CELL_BYTES_MAX = 32;
const LOOK_AHEAD_TOKENS = 3;

export function readScenario(value: unknown, where: string): Scenario {
  refuseForeign(value, where);
  const parsed = scenario.safeParse(value);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    throw new UsageError(
      'SCENARIO-FORM',
      `${where}${path.length === 0 ? '' : `: ${path.join('.')}`}: ${message}`,
    );
  }
  const checked: Scenario = parsed.data;
  refuseUnknownFault(checked, where);
  refuseImpossible(checked, where);
  return checked;
}

/** Told by its name, since no change of the file can help. */
function refuseForeign(value: unknown, where: string): void {
  const connector =
    typeof value === 'object' && value !== null && 'connector' in value ? value.connector : null;
  if (typeof connector === 'string' && specimenByName(connector) === undefined)
    throw new UsageError(
      'SCENARIO-FORM',
      `${where}: connector: ${describeValue(connector)} is not in this program, which has ${SPECIMEN_NAMES.join(' and ')}; one of your own runs through the library, with parts`,
    );
}

/** A bug that the connector does not have. */
function refuseUnknownFault({ connector, faults }: Scenario, where: string): void {
  const known = Object.keys(specimenByName(connector)!.bugs);
  const wrong = faults.findIndex((id) => !known.includes(id));
  if (wrong >= 0)
    throw new UsageError(
      'SCENARIO-FORM',
      `${where}: faults.${wrong}: ${describeValue(faults[wrong])} is no fault of connector ${connector}, which has ${known.length === 0 ? 'none' : known.join(', ')}`,
    );
}

function refuseImpossible(checked: Scenario, where: string): void {
  const { heads } = checked;
  for (const tp of [...checked.prefillTp, ...checked.decodeTp]) {
    if (heads % tp !== 0 && tp % heads !== 0)
      throw new UsageError(
        'SCENARIO-FORM',
        `${where}: ${heads} heads cannot be split over or replicated on TP ${tp}`,
      );
  }
  const tokens =
    checked.promptTokensMax + checked.outputTokensMax + (checked.lookAhead ? LOOK_AHEAD_TOKENS : 0);
  if (tokens > checked.blocksPerEngine * checked.blockTokens)
    throw new UsageError(
      'SCENARIO-FORM',
      `${where}: a request may take ${tokens} tokens, ${checked.blocksPerEngine} blocks hold ${checked.blocksPerEngine * checked.blockTokens}`,
    );
  const ranks = (instances: number, dp: readonly number[], tp: readonly number[]): number =>
    instances * greatest(dp) * greatest(tp);
  const rankCount =
    ranks(checked.prefillInstances, checked.prefillDp, checked.prefillTp) +
    ranks(checked.decodeInstances, checked.decodeDp, checked.decodeTp);
  const bytes =
    rankCount *
    checked.blocksPerEngine *
    checked.blockTokens *
    heads *
    2 *
    CELL_BYTES_MAX *
    greatest(checked.layers);
  if (bytes > CHECK_REGION_BYTES_MAX)
    throw new UsageError(
      'SCENARIO-FORM',
      `${where}: the caches of ${rankCount} ranks may take ${bytes} bytes, more than ${CHECK_REGION_BYTES_MAX}; lower blocksPerEngine, blockTokens, heads or layers`,
    );
}
