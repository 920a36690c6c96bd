import { type LayerView, listedTokensOf, listedUnitsOf, type PartView } from '../base/cache-view.ts';
import { isCount } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { refusalOf } from './refusal.ts';
import { type Stretch, sharedStretches } from './shares.ts';

/**
 * One part of a layer on one side, with a request's blocks: `blocks[i]` stands for the units from `firstUnit` +
 * i * {@link listedUnitsOf} on, of which the rank holds its share.
 */
export interface PartSide {
  readonly part: PartView;
  readonly layer: LayerView;
  readonly blocks: readonly number[];
  /** A block border. */
  readonly firstUnit: number;
}

/** A layer on one side with a request's blocks, counted in units. */
export interface UnitSide {
  readonly layer: LayerView;
  readonly blocks: readonly number[];
  /** A block border. */
  readonly firstUnit: number;
}

/** The same, counted in tokens. */
export interface LayerSide {
  readonly layer: LayerView;
  readonly blocks: readonly number[];
  /** A block border. */
  readonly firstToken: number;
}

/** The units, or tokens, [from, to). */
export interface UnitRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Adds to `runs` the triples (local offset, remote offset, bytes) that move one part of some units, for every
 * head and unit that both sides hold. Pieces are cut at each page border of either side, and where a unit that one side
 * lacks lies between. The axes are walked in the order in which they lie on the local side, outermost first, so that what
 * touches on both sides is joined as it is met.
 * @throws UsageError PLAN-RANGE when a block list does not cover the range or names a block outside its cache.
 */
export function planPart(local: PartSide, remote: PartSide, units: UnitRange, runs: number[]): void {
  walk({ local, part: local.part, remote, peer: remote.part }, ONE, units, runs);
}

/**
 * The same for all parts that both layers have, in one walk when the parts lie alike. Parts in several regions are for
 * planTransfer, which keeps their runs apart.
 * @throws UsageError PLAN-RANGE as planPart.
 */
export function planUnits(local: UnitSide, remote: UnitSide, units: UnitRange, runs: number[]): void {
  const here = local.layer.parts;
  const there = remote.layer.parts;
  if (here.length === 2 && there.length === 2 && isPair(here) && isPair(there))
    return planPair(local, remote, units, runs);
  for (const part of here) {
    const peer = there.find(({ name }) => name === part.name);
    if (peer !== undefined) walk({ local, part, remote, peer }, ONE, units, runs);
  }
}

/**
 * The same for a range of tokens, rounded outward to units.
 * @throws UsageError PLAN-RANGE as planPart, for a token or list that begins nowhere, and for layers of unequal units;
 *   PLAN-REFUSED with the cause when the layers cannot be joined; PLAN-SIZE.
 */
export function planLayer(local: LayerSide, remote: LayerSide, tokens: UnitRange, runs: number[]): void {
  requireTokens(tokens.from, tokens.to, local.firstToken, remote.firstToken);
  const { unitTokens } = local.layer;
  const [here, there] = [inUnits(local, unitTokens), inUnits(remote, unitTokens)];
  const cause = refusalOf(local.layer, remote.layer);
  if (cause !== '') throw new UsageError('PLAN-REFUSED', cause);
  const from = Math.floor(tokens.from / unitTokens);
  const to = tokens.to > tokens.from ? Math.ceil(tokens.to / unitTokens) : from;
  planUnits(here, there, { from, to }, runs);
}

/** @throws UsageError PLAN-RANGE when the side is not counted in units of so many tokens or begins within a block. */
export function inUnits({ layer, blocks, firstToken }: LayerSide, unitTokens: number): UnitSide {
  if (layer.unitTokens !== unitTokens)
    throw new UsageError('PLAN-RANGE', `a unit of ${layer.unitTokens} tokens meets one of ${unitTokens}`);
  if (firstToken % listedTokensOf(layer) !== 0)
    throw new UsageError(
      'PLAN-RANGE',
      `token ${firstToken} begins no block of ${listedTokensOf(layer)} tokens`,
    );
  return { layer, blocks, firstUnit: firstToken / unitTokens };
}

/** Whether the two parts of a layer lie alike, the first one first. */
function isPair([first, second]: readonly PartView[]): boolean {
  return (
    first!.bytes === second!.bytes &&
    first!.base < second!.base &&
    first!.blockStride === second!.blockStride &&
    first!.unitStride === second!.unitStride &&
    first!.headStride === second!.headStride &&
    first!.pageUnits === second!.pageUnits &&
    first!.region === second!.region
  );
}

function planPair(local: UnitSide, remote: UnitSide, units: UnitRange, runs: number[]): void {
  const [here, there] = [local.layer.parts, remote.layer.parts];
  const crossed = here[0]!.name !== there[0]!.name;
  const first = there[crossed ? 1 : 0]!;
  const second = there[crossed ? 0 : 1]!;
  const axis = { count: 2, local: here[1]!.base - here[0]!.base, remote: second.base - first.base };
  walk({ local, part: here[0]!, remote, peer: first }, axis, units, runs);
}

/** Rows of one plan, some 200 MB of them. */
const ROWS_MAX = 2 ** 23;
/** Cells that one walk looks at: some ten seconds of them. */
const CELLS_MAX = 2 ** 31;
const LAST_ROW = 3 * (ROWS_MAX - 1);

/** @throws UsageError PLAN-SIZE when a plan has more rows than are kept. */
export function requireRoom(rows: number): void {
  if (rows > ROWS_MAX)
    throw new UsageError('PLAN-SIZE', `more than ${ROWS_MAX} runs: move fewer tokens at once`);
}

/** Cells of one unit that both layers hold. */
export function cellsOfUnit(here: LayerView, there: LayerView): number {
  const headTo = Math.min(here.headFirst + here.headCount, there.headFirst + there.headCount);
  return here.parts.length * Math.max(0, headTo - Math.max(here.headFirst, there.headFirst));
}

/** @throws UsageError PLAN-SIZE when it would take too long to look at so many cells. */
export function requireWork(cells: number): void {
  if (cells > CELLS_MAX)
    throw new UsageError(
      'PLAN-SIZE',
      `${cells} cells, at most ${CELLS_MAX} are planned: move fewer tokens at once`,
    );
}

/** How often to step along an axis, and how far on either side. */
interface Axis {
  readonly count: number;
  readonly local: number;
  readonly remote: number;
}

type Axes = readonly [Axis, Axis, Axis];

const ONE: Axis = { count: 1, local: Number.MAX_SAFE_INTEGER, remote: 0 };

/** A part of the local layer and its peer. */
interface PartPair {
  readonly local: UnitSide;
  readonly part: PartView;
  readonly remote: UnitSide;
  readonly peer: PartView;
}

/** Bytes from some place on either side. */
interface Offsets {
  readonly local: number;
  readonly remote: number;
}

/** The common walk: over a pair, and as many more parts as `parts` says, at its distances. */
function walk(pair: PartPair, parts: Axis, units: UnitRange, runs: number[]): void {
  const { local, part, remote, peer } = pair;
  const { from, to } = units;
  const here = local.layer;
  const there = remote.layer;
  const headFrom = Math.max(here.headFirst, there.headFirst);
  const headTo = Math.min(here.headFirst + here.headCount, there.headFirst + there.headCount);
  if (headFrom >= headTo || from >= to) return;
  requireWork((headTo - headFrom) * parts.count * (to - from));
  // A list covers its range or does not, whoever holds which units of it.
  if (here.context.ranks > 1 || there.context.ranks > 1) {
    requireCover(local, from, to);
    requireCover(remote, from, to);
  }
  const heads: Axis = { count: headTo - headFrom, local: part.headStride, remote: peer.headStride };
  const localHead = (headFrom - here.headFirst) * part.headStride;
  const remoteHead = (headFrom - there.headFirst) * peer.headStride;
  // Some forms have K and V, or the heads, further apart than pages: these axes are walked outside the list.
  const partsOutside = parts.count > 1 && parts.local > part.blockStride;
  const headsOutside = heads.count > 1 && heads.local > part.blockStride;
  const [outer, next] = inOrder(partsOutside ? parts : ONE, headsOutside ? heads : ONE);
  const within = { ...pair, parts: partsOutside ? ONE : parts, heads: headsOutside ? ONE : heads };
  for (let i = 0; i < outer.count; i++) {
    for (let j = 0; j < next.count; j++) {
      const add = {
        local: localHead + i * outer.local + j * next.local,
        remote: remoteHead + i * outer.remote + j * next.remote,
      };
      walkList(within, add, units, runs);
    }
  }
}

interface WalkedPair extends PartPair {
  /** The axes that lie within a page. */
  readonly parts: Axis;
  readonly heads: Axis;
}

/** One pass over both block lists, at a distance from the first head and part on either side. */
function walkList(pair: WalkedPair, add: Offsets, { from, to }: UnitRange, runs: number[]): void {
  const { local, remote } = pair;
  const [here, there] = [local.layer.context, remote.layer.context];
  const first = { local: from - local.firstUnit, remote: from - remote.firstUnit, units: to - from };
  if (here.ranks === 1 && there.ranks === 1) return walkStretch(pair, add, first, runs);
  for (const stretch of sharedStretches(here, there, first)) walkStretch(pair, add, stretch, runs);
}

/** The units of one stretch. */
function walkStretch(pair: WalkedPair, add: Offsets, stretch: Stretch, runs: number[]): void {
  const { local, part, remote, peer, parts, heads } = pair;
  for (let done = 0; done < stretch.units; ) {
    const here = placeOf(local, part, stretch.local + done);
    const there = placeOf(remote, peer, stretch.remote + done);
    const count = Math.min(stretch.units - done, here.room, there.room);
    const units: Axis = { count, local: part.unitStride, remote: peer.unitStride };
    const at = { local: here.offset + add.local, remote: there.offset + add.remote };
    addCells(inLocalOrder(parts, heads, units), at, part.bytes, runs);
    done += count;
  }
}

function inOrder(a: Axis, b: Axis): readonly [Axis, Axis] {
  return a.local >= b.local ? [a, b] : [b, a];
}

/** Outermost first. Three axes need no more than three comparisons. */
function inLocalOrder(a: Axis, b: Axis, c: Axis): Axes {
  const [x, y] = inOrder(a, b);
  if (c.local >= x.local) return [c, x, y];
  return c.local >= y.local ? [x, c, y] : [x, y, c];
}

/** Where unit number `held` of those that lie here is, for head `headFirst`, and how many are left of its page. */
function placeOf(side: UnitSide, part: PartView, held: number): { room: number; offset: number } {
  const { blockUnits } = side.layer;
  const index = Math.floor(held / blockUnits);
  const block = blockAt(side, index);
  const inBlock = held - index * blockUnits;
  const { pageUnits } = part;
  const inPage = inBlock % pageUnits;
  const page = block * (blockUnits / pageUnits) + (inBlock - inPage) / pageUnits;
  return { room: pageUnits - inPage, offset: part.base + page * part.blockStride + inPage * part.unitStride };
}

/** @throws UsageError PLAN-RANGE when a token position is none. */
export function requireTokens(...tokens: readonly number[]): void {
  for (const token of tokens)
    if (!isCount(token)) throw new UsageError('PLAN-RANGE', `token ${token} is no whole number from 0 on`);
}

/** @throws UsageError PLAN-RANGE when the list has no such entry or it names a block outside the cache. */
function blockAt(side: UnitSide, index: number): number {
  const { blockCount } = side.layer;
  const block = side.blocks[index];
  if (isCount(block) && block < blockCount) return block;
  const unit = side.firstUnit + index * listedUnitsOf(side.layer);
  const entry = `entry ${index} of a list of ${side.blocks.length} blocks, block ${block} of ${blockCount}`;
  throw new UsageError('PLAN-RANGE', `the units from ${unit} on lie in ${entry}`);
}

/** @throws UsageError PLAN-RANGE when an entry for the units [from, to), of which there is one, is not as it must be. */
function requireCover(side: UnitSide, from: number, to: number): void {
  const listed = listedUnitsOf(side.layer);
  const last = Math.floor((to - 1 - side.firstUnit) / listed);
  for (let index = Math.floor((from - side.firstUnit) / listed); index <= last; index++) blockAt(side, index);
}

/** Adds the cells of one piece, each joined to the run before it when it continues it on both sides. */
function addCells([outer, middle, inner]: Axes, at: Offsets, cellBytes: number, runs: number[]): void {
  for (let i = 0; i < outer.count; i++) {
    for (let j = 0; j < middle.count; j++) {
      let local = at.local + i * outer.local + j * middle.local;
      let remote = at.remote + i * outer.remote + j * middle.remote;
      for (let k = 0; k < inner.count; k++, local += inner.local, remote += inner.remote) {
        const last = runs.length - 3;
        const isNext =
          last >= 0 &&
          runs[last]! + runs[last + 2]! === local &&
          runs[last + 1]! + runs[last + 2]! === remote;
        if (isNext) runs[last + 2]! += cellBytes;
        else {
          if (last >= LAST_ROW) requireRoom(ROWS_MAX + 1);
          runs.push(local, remote, cellBytes);
        }
      }
    }
  }
}
