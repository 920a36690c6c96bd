import type { LayerView } from '../base/cache-view.ts';
import type { EngineSpec, RequestId, Topology } from '../base/topology.ts';
import type { RequestView } from '../connector/plug.ts';

/** What a guest is told, as plain data with vLLM's words; and what it names, read back. */

/** (offset in block 0, from one block to the next, bytes): what lies together. */
export type Piece = readonly [base: number, stride: number, bytes: number];

export function engineName({ actors }: Topology, { scheduler }: EngineSpec): string {
  return actors[scheduler]!.name;
}

export function requestName(request: RequestId): string {
  return `r${request}`;
}

/** -1 for what is no name of a request: the border refuses it by the hook that it came from. */
export function requestOf(name: string): RequestId {
  return /^r\d{1,9}$/.test(name) ? Number(name.slice(1)) : -1;
}

export function configOf(topology: Topology, spec: EngineSpec): object {
  const ranks = topology.engines.map((engine) => [
    engineName(topology, engine),
    engine.ranks.map((rank) => topology.actors[rank]!.name),
  ]);
  return {
    engine: engineName(topology, spec),
    role: spec.role,
    tpSize: spec.ranks.length,
    ranks: Object.fromEntries(ranks),
  };
}

export function toldRequest(topology: Topology, view: RequestView, isAborted = false): object {
  return {
    request: requestName(view.request),
    promptTokens: view.prompt.promptTokens,
    computed: view.computed,
    params: transferParams(topology, view),
    aborted: isAborted,
  };
}

/** vLLM's kv_transfer_params; null for a request that no other engine has a part in. */
function transferParams({ engines, actors }: Topology, view: RequestView): object | null {
  const { leg, transfer, params, remoteEngine } = view;
  if (leg === 'whole') return null;
  const engine = engines[params?.remoteEngine ?? remoteEngine];
  return {
    [leg === 'prefill' ? 'do_remote_decode' : 'do_remote_prefill']: true,
    transfer_id: `t${transfer}`,
    remote_engine_id: engine === undefined ? null : actors[engine.scheduler]!.name,
    ...(params === null
      ? {}
      : { remote_block_ids: params.remoteBlocks, remote_num_tokens: params.remoteTokens }),
  };
}

/** What holds each unit of a block of a layer, in order of the units. */
export function unitsOf(view: LayerView): Piece[][] {
  return Array.from({ length: view.blockUnits }, (_, unit) =>
    view.parts.flatMap(({ base, blockStride, unitStride, headStride, bytes, pageUnits }) => {
      const page = Math.trunc(unit / pageUnits) * blockStride;
      const first = base + page + (unit % pageUnits) * unitStride;
      const stride = blockStride * (view.blockUnits / pageUnits);
      return Array.from(
        { length: view.headCount },
        (_, head): Piece => [first + head * headStride, stride, bytes],
      );
    }),
  );
}

/** The blocks that triples (local offset, remote offset, bytes) touch on one side, ascending; `side` is 0 or 1. */
export function blocksOf(view: LayerView, runs: readonly number[], side: 0 | 1): number[] {
  const pieces = unitsOf(view).flat();
  const smallest = pieces.reduce((least, [, , bytes]) => Math.min(least, bytes), Number.POSITIVE_INFINITY);
  const found = new Set<number>();
  for (let run = 0; run + 2 < runs.length; run += 3) {
    const first = runs[run + side]!;
    const end = Math.min(first + runs[run + 2]!, view.bytes + pieces[0]![0]);
    for (let at = first; at < end; at += smallest) found.add(blockAt(pieces, view.blockCount, at));
  }
  found.delete(-1);
  return [...found].sort((left, right) => left - right);
}

/** The block that an offset lies in; -1 for none. */
function blockAt(pieces: readonly Piece[], blockCount: number, offset: number): number {
  for (const [base, stride, bytes] of pieces) {
    const block = Math.floor((offset - base) / stride);
    if (block >= 0 && block < blockCount && offset - base - block * stride < bytes) return block;
  }
  return -1;
}
