import type { ActorId, BlockId, EngineId, RequestId, Topology } from '../base/topology.ts';
import type { PostedBatch } from '../wire/machine.ts';
import { type CacheMap, eachUnit, type LayerMap } from './cache-map.ts';
import { declare, type EngineLedger, isDeclared, mayRead, mayWrite, type TokenRange } from './ledger.ts';
import type { InvariantId } from './verdict.ts';

/**
 * What an operation may touch: blocks that its request holds, and of these the tokens that the request was given to fill, or
 * has to be read. Both are known from the schedulers; what is touched comes from the bytes themselves.
 */

export interface OperationRules {
  readonly topology: Topology;
  readonly ledgers: readonly EngineLedger[];
  readonly cacheOf: (actor: ActorId) => CacheMap;
  readonly promptTokensOf: (request: RequestId) => number;
  readonly isDead: (engine: EngineId) => boolean;
  /** Batches that were posted as they should be, and the state of the ledgers then. */
  readonly passed: WeakMap<PostedBatch, number>;
  readonly fail: (invariant: InvariantId, place: string, detail: string) => void;
}

/** One end of an operation. */
interface Side {
  readonly engine: EngineId;
  readonly actor: ActorId;
  readonly ledger: EngineLedger;
  /** Whether the operation changes the bytes there. */
  readonly writes: boolean;
  /** Where the offset of this side stands in a run. */
  readonly at: 0 | 1;
}

const RUN_NUMBERS = 3;

/** A batch is posted; `canLand` is false when nothing of it can, as after a fence. It must name all that it touches anyhow. */
export function checkPosted(
  rules: OperationRules,
  from: ActorId,
  batch: PostedBatch,
  canLand: boolean,
): void {
  for (const side of sidesOf(rules, from, batch)) {
    const isJudged = canLand && !rules.isDead(side.engine);
    declare(side.ledger, side.at === 0 ? batch.localBlocks : batch.remoteBlocks);
    walk(rules, side, batch.runs, (block, unit, layer) => {
      if (isJudged && isWrong(rules, side, batch, { block, unit, layer }, 'is posted on')) return true;
      if (isDeclared(side.ledger, block)) return false;
      const { name, engine } = rules.topology.actors[from]!;
      const text = `${name} posts ${nameOf(batch)} on block ${block} of engine ${side.engine} without naming it`;
      rules.fail('I1', `${rules.topology.engines[engine]!.role} rank post`, text);
      return true;
    });
  }
  if (canLand) rules.passed.set(batch, stateOf(rules, from, batch));
}

/** Some of a batch's runs land. What passed at the post passes again as long as no block has changed hands at either side. */
export function checkLanding(
  rules: OperationRules,
  from: ActorId,
  batch: PostedBatch,
  runs: readonly number[],
): void {
  if (rules.passed.get(batch) === stateOf(rules, from, batch)) return;
  for (const side of sidesOf(rules, from, batch)) {
    if (rules.isDead(side.engine)) continue;
    walk(rules, side, runs, (block, unit, layer) =>
      isWrong(rules, side, batch, { block, unit, layer }, 'lands on'),
    );
  }
}

/** Grows with every change of either ledger. */
function stateOf({ topology, ledgers }: OperationRules, from: ActorId, { peer }: PostedBatch): number {
  const { actors } = topology;
  return ledgers[actors[from]!.engine]!.changes + ledgers[actors[peer]!.engine]!.changes;
}

interface Unit {
  readonly block: BlockId;
  readonly unit: number;
  readonly layer: LayerMap;
}

function isWrong(rules: OperationRules, side: Side, batch: PostedBatch, unit: Unit, verb: string): boolean {
  const wrong = wrongBlock(side, batch.request, unit.block) ?? wrongToken(rules, side, batch, unit);
  if (wrong === null) return false;
  const { role } = rules.topology.engines[side.engine]!;
  rules.fail('I1', `${role} ${wrong.place}`, `${nameOf(batch)} ${verb} ${wrong.text}`);
  return true;
}

function nameOf({ operation, request, transfer, layer }: PostedBatch): string {
  return `a ${operation} of request ${request} (transfer ${transfer}, layer ${layer})`;
}

function sidesOf(
  { topology, ledgers }: OperationRules,
  from: ActorId,
  { peer, operation }: PostedBatch,
): Side[] {
  const isWrite = operation === 'write';
  return [from, peer].map((actor, at) => {
    const { engine } = topology.actors[actor]!;
    return { engine, actor, ledger: ledgers[engine]!, writes: isWrite === (at === 1), at: at as 0 | 1 };
  });
}

function walk(
  { cacheOf }: OperationRules,
  { actor, at }: Side,
  runs: ArrayLike<number>,
  visit: (block: BlockId, unit: number, layer: LayerMap) => boolean,
): void {
  const cache = cacheOf(actor);
  for (let run = 0; run < runs.length; run += RUN_NUMBERS)
    if (eachUnit(cache, runs[run + at]!, runs[run + 2]!, visit)) return;
}

interface Wrong {
  readonly place: string;
  readonly text: string;
}

/** A block that the request does not hold; one that it shares with others may be read, not written. */
function wrongBlock({ engine, ledger, writes }: Side, request: RequestId, block: BlockId): Wrong | null {
  if (writes ? mayWrite(ledger, block, request) : mayRead(ledger, block, request)) return null;
  const holder = ledger.holders[block]! > 0 ? `request ${ledger.owner[block]}` : 'nobody';
  return { place: 'blocks', text: `block ${block} of engine ${engine}, which belongs to ${holder}` };
}

const NOTHING: TokenRange = { from: 0, to: 0 };

/** A token beyond what the request was given to fill there, or beyond the prompt that can be read there. */
function wrongToken(
  { promptTokensOf }: OperationRules,
  { engine, ledger, writes }: Side,
  { request }: PostedBatch,
  { block, unit, layer }: Unit,
): Wrong | null {
  const { blockUnits, unitTokens } = layer;
  const { from, to } = writes
    ? (ledger.granted.get(request) ?? NOTHING)
    : { from: 0, to: promptTokensOf(request) };
  const token = (ledger.ordinal[block]! * blockUnits + unit) * unitTokens;
  if (token + unitTokens > from && token < to) return null;
  const range = from < to ? `tokens ${from} to ${to - 1}` : 'no tokens';
  const limit = writes ? `which waits for ${range} there` : `which has ${range} there`;
  return {
    place: 'slots',
    text: `token ${token} of the request in block ${block} of engine ${engine}, ${limit}`,
  };
}
