import type { ActorId, BlockId, EngineId, RequestId } from '../../base/topology.ts';
import type { PostedBatch } from '../../wire/machine.ts';
import { type Where, whereOfActor, whereOfEngine } from '../breach.ts';
import { eachUnit, type LayerMap } from '../cache-map.ts';
import { type Court, engineOf } from '../court.ts';
import { breachesOf, type Invariant } from '../invariant.ts';
import { declare, type EngineLedger, isDeclared, mayRead, mayWrite, type TokenRange } from '../ledger.ts';

/**
 * What an operation may touch: blocks that its request holds, and of these the tokens that the request was given to fill, or
 * has to be read. Both are known from the schedulers; what is touched comes from the bytes themselves.
 */

const SITES = {
  'block-pool': '{owner} block pool',
  blocks: '{owner} blocks',
  slots: '{owner} slots',
  post: '{owner} post',
} as const;

const BREACHES = breachesOf('I1', SITES, {
  'handed-out-in-danger': {
    site: 'block-pool',
    says: '{actor} gives block {block} to request {request} while an operation of request {endangering} that names it can still land',
  },
  'handed-out-while-held': {
    site: 'block-pool',
    says: '{actor} gives block {block} to request {request} while {holder} holds it',
  },
  'block-of-another': {
    site: 'blocks',
    says: 'a {operation} of request {request} (transfer {transfer}, layer {layer}) {deed} block {block} of engine {engine}, which belongs to {holder}',
  },
  'token-not-to-be-written': {
    site: 'slots',
    says: 'a {operation} of request {request} (transfer {transfer}, layer {layer}) {deed} token {token} of the request in block {block} of engine {engine}, which waits for {tokens} there',
  },
  'token-not-to-be-read': {
    site: 'slots',
    says: 'a {operation} of request {request} (transfer {transfer}, layer {layer}) {deed} token {token} of the request in block {block} of engine {engine}, which has {tokens} there',
  },
  'block-not-named': {
    site: 'post',
    says: '{actor} posts a {operation} of request {request} (transfer {transfer}, layer {layer}) on block {block} of engine {engine} without naming it',
  },
});

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

interface Unit {
  /** Whether a batch is posted on it or lands there. */
  readonly deed: 'is-posted-on' | 'lands-on';
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
function tellWrong(court: Court, side: Side, batch: PostedBatch, { deed, block, unit, layer }: Unit): true {
  const { engine, ledger, request, writes, tokens } = side;
  const where = whereOfEngine(court.topology, engine);
  const { operation, transfer } = batch;
  const ids = { operation, request, transfer, layer: batch.layer, deed, block, engine };
  if (!(writes ? mayWrite(ledger, block, request) : mayRead(ledger, block, request))) {
    const holder = ledger.holders[block]! > 0 ? ledger.owner[block]! : -1;
    court.fail(BREACHES['block-of-another'], where, { ...ids, holder });
    return true;
  }
  const token = tokenOf(ledger, block, unit, layer);
  const breach = BREACHES[writes ? 'token-not-to-be-written' : 'token-not-to-be-read'];
  court.fail(breach, where, { ...ids, token, tokens: [tokens.from, tokens.to] });
  return true;
}

const NOTHING: TokenRange = { from: 0, to: 0 };

/** The initiator is side 0 of an operation, the target side 1. */
const SIDES = [0, 1] as const;

function sideOf(court: Court, from: ActorId, { peer, operation, request }: PostedBatch, at: 0 | 1): Side {
  const actor = at === 0 ? from : peer;
  const writes = (operation === 'write') === (at === 1);
  const engine = engineOf(court, actor);
  const ledger = court.ledgers[engine]!;
  const { promptTokens } = court.config.requests[request]!;
  const tokens = writes ? (ledger.granted.get(request) ?? NOTHING) : { from: 0, to: promptTokens };
  return { engine, actor, ledger, request, writes, tokens, at };
}

function walk(
  { config }: Court,
  { actor, at }: Side,
  runs: ArrayLike<number>,
  visit: (block: BlockId, unit: number, layer: LayerMap) => boolean,
): void {
  const cache = config.cacheOf(actor);
  for (let run = 0; run < runs.length; run += RUN_NUMBERS)
    if (eachUnit(cache, runs[run + at]!, runs[run + 2]!, visit)) return;
}

function tellUnnamed(
  court: Court,
  actor: ActorId,
  batch: PostedBatch,
  block: { readonly block: BlockId; readonly engine: EngineId },
): void {
  const { operation, request, transfer, layer } = batch;
  const ids = { actor, operation, request, transfer, layer, ...block };
  court.fail(BREACHES['block-not-named'], whereOfActor(court.topology, actor), ids);
}

export const I1 = {
  id: 'I1',
  name: 'block-reuse',
  sentence:
    'no block is reused while an operation that names it can still land, and none touches what it was not given',
  sites: SITES,
  breaches: BREACHES,
  hears: {
    allocate(court, actor, { request, blocks }) {
      const engine = engineOf(court, actor);
      const where = (): Where => whereOfActor(court.topology, actor);
      const danger = court.config.findDanger(engine, blocks);
      if (danger !== null) {
        const ids = { actor, block: danger.block, request, endangering: danger.request };
        court.fail(BREACHES['handed-out-in-danger'], where(), ids);
      }
      const { holders, owner } = court.ledgers[engine]!;
      for (const block of blocks)
        if (holders[block]! > 0)
          court.fail(BREACHES['handed-out-while-held'], where(), {
            ...{ actor, block, request },
            holder: owner[block]!,
          });
    },
    /** All of it is looked at, whether or not anything of it can land: it must name what it touches anyhow. */
    posted(court, from, batch, canLand) {
      for (let at = 0; at < SIDES.length; at++) {
        const side = sideOf(court, from, batch, SIDES[at]!);
        const isJudged = canLand && !court.dead.has(side.engine);
        declare(side.ledger, side.at === 0 ? batch.localBlocks : batch.remoteBlocks);
        walk(court, side, batch.runs, (block, unit, layer) => {
          if (isJudged && !isGiven(side, block, unit, layer))
            return tellWrong(court, side, batch, { deed: 'is-posted-on', block, unit, layer });
          if (isDeclared(side.ledger, block)) return false;
          tellUnnamed(court, from, batch, { block, engine: side.engine });
          return true;
        });
      }
    },
    landed(court, from, batch, runs) {
      for (let at = 0; at < SIDES.length; at++) {
        const side = sideOf(court, from, batch, SIDES[at]!);
        if (court.dead.has(side.engine)) continue;
        walk(
          court,
          side,
          runs,
          (block, unit, layer) =>
            !isGiven(side, block, unit, layer) &&
            tellWrong(court, side, batch, { deed: 'lands-on', block, unit, layer }),
        );
      }
    },
  },
  raisedBy: '',
  finds:
    'blocks freed at once on abort; prefill frees before D has read; no fence before blocks go back; one slot or one block too much',
} as const satisfies Invariant;
