import { filled } from '../base/lists.ts';
import { SmallMap } from '../base/small-map.ts';
import type { BlockId, RequestId } from '../base/topology.ts';

/** Who holds which blocks of one engine, as its scheduler says. */
export interface EngineLedger {
  /** The request a block was last allocated to; -1 for none. */
  readonly owner: number[];
  readonly holders: number[];
  /** The block's place in the lists of all who hold it: who share a block share the prefix up to it. */
  readonly ordinal: number[];
  /** Who has held a block since it was last allocated: what is in it is theirs too. */
  readonly knownTo: (RequestId[] | undefined)[];
  /** Blocks of each request, in order of its tokens. */
  readonly lists: SmallMap<RequestId, BlockId[]>;
  /** Tokens of a request that its connector is to bring: [from, to). Nobody else may write, and not elsewhere. */
  readonly granted: SmallMap<RequestId, TokenRange>;
  /** For `declare`. */
  readonly marks: number[];
  mark: number;
  /** How often anything of the above has changed hands. */
  changes: number;
}

export interface TokenRange {
  readonly from: number;
  readonly to: number;
}

export function newLedger(blocks: number): EngineLedger {
  const zeros = filled(blocks, 0);
  return {
    owner: filled(blocks, -1),
    holders: zeros,
    ordinal: [...zeros],
    knownTo: new Array(blocks),
    lists: new SmallMap(),
    granted: new SmallMap(),
    marks: [...zeros],
    mark: 0,
    changes: 0,
  };
}

/** Blocks go to a request, behind those that it has. */
export function allocate(ledger: EngineLedger, request: RequestId, blocks: readonly BlockId[]): void {
  for (const block of blocks) {
    ledger.owner[block] = request;
    ledger.holders[block] = 1;
    ledger.knownTo[block] = [];
  }
  list(ledger, request, blocks);
}

/** A request holds blocks too that others hold, the same ones at the same place. */
export function share(ledger: EngineLedger, request: RequestId, blocks: readonly BlockId[]): void {
  for (const block of blocks) ledger.holders[block]!++;
  list(ledger, request, blocks);
}

function list(ledger: EngineLedger, request: RequestId, blocks: readonly BlockId[]): void {
  const { lists, ordinal, knownTo } = ledger;
  ledger.changes++;
  const listed = lists.get(request) ?? [];
  lists.set(request, listed);
  for (const block of blocks) {
    ordinal[block] = listed.length;
    listed.push(block);
    knownTo[block]!.push(request);
  }
}

/** The connector is to bring these tokens of a request. */
export function grant(ledger: EngineLedger, request: RequestId, tokens: TokenRange): void {
  ledger.changes++;
  ledger.granted.set(request, tokens);
}

/** A request gives back all it has. */
export function forgetBlocks(ledger: EngineLedger, request: RequestId): void {
  ledger.changes++;
  ledger.lists.delete(request);
  ledger.granted.delete(request);
}

/** Whether a request may fill a block: it holds it, and shares it with nobody before it. */
export function mayWrite(
  { owner, lists, ordinal }: EngineLedger,
  block: BlockId,
  request: RequestId,
): boolean {
  return owner[block] === request && lists.get(request)?.[ordinal[block]!] === block;
}

/** Whether what a request reads from a block is its own: somebody holds it who got it from no other. */
export function mayRead({ holders, knownTo }: EngineLedger, block: BlockId, request: RequestId): boolean {
  return holders[block]! > 0 && knownTo[block]!.includes(request);
}

/** Notes which blocks an operation says it touches; `isDeclared` asks about the latest. */
export function declare(ledger: EngineLedger, blocks: readonly BlockId[]): void {
  ledger.mark++;
  for (const block of blocks) ledger.marks[block] = ledger.mark;
}

export function isDeclared({ marks, mark }: EngineLedger, block: BlockId): boolean {
  return marks[block] === mark;
}
