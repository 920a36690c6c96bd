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
  readonly fail: (invariant: InvariantId, place: string, detail: string) => void;
}

/** One end of an operation. */
interface Side {
  readonly engine: EngineId;
  readonly actor: ActorId;
  readonly ledger: EngineLedger;
  /** Whether the operation changes the bytes there. */
  readonly writes: boolean;
  readonly request: RequestId;
  /** What was given to it there. */
  readonly tokens: TokenRange;
  /** Where the offset of this side stands in a run. */
  readonly at: 0 | 1;
}

const RUN_NUMBERS = 3;
/** No state of the ledgers. */
const NEVER_PASSED = -1;

/**
 * A batch is posted; `canLand` is false when nothing of it can, as after a fence. It must name all that it touches anyhow.
 * @returns the state of the ledgers under which it passed
 */
export function checkPosted(
  rules: OperationRules,
  from: ActorId,
  batch: PostedBatch,
  canLand: boolean,
): number {
  for (const side of sidesOf(rules, from, batch)) {
    const isJudged = canLand && !rules.isDead(side.engine);
    declare(side.ledger, side.at === 0 ? batch.localBlocks : batch.remoteBlocks);
    walk(rules, side, batch.runs, (block, unit, layer) => {
      if (isJudged && !isGiven(side, block, unit, layer))
        return tellWrong(rules, side, batch, { block, unit, layer }, 'is posted on');
      if (isDeclared(side.ledger, block)) return false;
      const { name, engine } = rules.topology.actors[from]!;
      const text = `${name} posts ${nameOf(batch)} on block ${block} of engine ${side.engine} without naming it`;
      rules.fail('I1', `${rules.topology.engines[engine]!.role} rank post`, text);
      return true;
    });
  }
  return canLand ? stateOf(rules, from, batch) : NEVER_PASSED;
}

/** Some of a batch's runs land. */
export function checkLanding(
  rules: OperationRules,
  from: ActorId,
  batch: PostedBatch,
  runs: readonly number[],
): void {
  for (const side of sidesOf(rules, from, batch)) {
    if (rules.isDead(side.engine)) continue;
    walk(
      rules,
      side,
      runs,
      (block, unit, layer) =>
        !isGiven(side, block, unit, layer) &&
        tellWrong(rules, side, batch, { block, unit, layer }, 'lands on'),
    );
  }
}

/** Grows with every change of either ledger. */
export function stateOf({ topology, ledgers }: OperationRules, from: ActorId, { peer }: PostedBatch): number {
  const { actors } = topology;
  return ledgers[actors[from]!.engine]!.changes + ledgers[actors[peer]!.engine]!.changes;
}

interface Unit {
  readonly block: BlockId;
  readonly unit: number;
  readonly layer: LayerMap;
}

/** Whether a unit was given to the request of a side. */
function isGiven(
  { ledger, request, writes, tokens }: Side,
  block: BlockId,
  unit: number,
  layer: LayerMap,
): boolean {
  if (!(writes ? mayWrite(ledger, block, request) : mayRead(ledger, block, request))) return false;
  const token = tokenOf(ledger, block, unit, layer);
  return token + layer.unitTokens > tokens.from && token < tokens.to;
}

function tokenOf(
  { ordinal }: EngineLedger,
  block: BlockId,
  unit: number,
  { blockUnits, unitTokens }: LayerMap,
): number {
  return (ordinal[block]! * blockUnits + unit) * unitTokens;
}

/** A block that the request does not hold, or a token beyond what it was given to fill there or has to be read there. */
function tellWrong(rules: OperationRules, side: Side, batch: PostedBatch, at: Unit, verb: string): true {
  const { role } = rules.topology.engines[side.engine]!;
  const { place, text } = wrongBlock(side, at.block) ?? wrongToken(side, at);
  rules.fail('I1', `${role} ${place}`, `${nameOf(batch)} ${verb} ${text}`);
  return true;
}

function nameOf({ operation, request, transfer, layer }: PostedBatch): string {
  return `a ${operation} of request ${request} (transfer ${transfer}, layer ${layer})`;
}

const NOTHING: TokenRange = { from: 0, to: 0 };

function sidesOf(rules: OperationRules, from: ActorId, { peer, operation, request }: PostedBatch): Side[] {
  const isWrite = operation === 'write';
  const end = { request, writes: !isWrite, at: 0 } as const;
  return [sideOf(rules, from, end), sideOf(rules, peer, { ...end, writes: isWrite, at: 1 })];
}

function sideOf(
  { topology, ledgers, promptTokensOf }: OperationRules,
  actor: ActorId,
  { request, writes, at }: Pick<Side, 'request' | 'writes' | 'at'>,
): Side {
  const { engine } = topology.actors[actor]!;
  const ledger = ledgers[engine]!;
  const tokens = writes ? (ledger.granted.get(request) ?? NOTHING) : { from: 0, to: promptTokensOf(request) };
  return { engine, actor, ledger, request, writes, tokens, at };
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

/** One that it shares with others may be read, not written. */
function wrongBlock({ engine, ledger, request, writes }: Side, block: BlockId): Wrong | null {
  if (writes ? mayWrite(ledger, block, request) : mayRead(ledger, block, request)) return null;
  const holder = ledger.holders[block]! > 0 ? `request ${ledger.owner[block]}` : 'nobody';
  return { place: 'blocks', text: `block ${block} of engine ${engine}, which belongs to ${holder}` };
}

function wrongToken({ engine, ledger, writes, tokens }: Side, { block, unit, layer }: Unit): Wrong {
  const { from, to } = tokens;
  const token = tokenOf(ledger, block, unit, layer);
  const range = from < to ? `tokens ${from} to ${to - 1}` : 'no tokens';
  const limit = writes ? `which waits for ${range} there` : `which has ${range} there`;
  return {
    place: 'slots',
    text: `token ${token} of the request in block ${block} of engine ${engine}, ${limit}`,
  };
}
