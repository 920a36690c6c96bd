import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type PlanRequest, planOf } from '../../../src/cli/plan/compute.ts';
import { boundsOfBatches, createRoom, measure } from '../../../src/cli/plan/measure.ts';
import { cachesOf, laySide, type Side } from '../../../src/cli/plan/ranks.ts';
import { type EngineSide, planTransfer } from '../../../src/kv/transfer.ts';
import { modelWith, requestOf } from './plan-helpers.ts';

/** Plans of random shapes, held to arithmetic of their own and to the connector's planner. */

const SEED = { seed: 42, numRuns: 150 };

const sides = fc.record({
  tp: fc.constantFrom(1, 2, 4, 8),
  pp: fc.integer({ min: 1, max: 3 }),
  block: fc.constantFrom(4, 8, 12),
  kernel: fc.constantFrom(1, 2, 4),
  layout: fc.constantFrom('kv-first-nhd', 'kv-first-hnd', 'block-first-hnd', 'cross-layer-nhd', 'sglang-mha'),
});
const textOf = ({
  tp,
  pp,
  block,
  kernel,
  layout,
}: typeof sides extends fc.Arbitrary<infer S> ? S : never): string =>
  `tp=${tp},pp=${pp},block=${block},kernel-block=${block / kernel},layout=${layout}`;
/** The same, and its context groups. */
const groupedSides = fc
  .record({ side: sides, dcp: fc.constantFrom(1, 2, 4), interleave: fc.constantFrom(1, 2, 4) })
  .map(({ side, dcp, interleave }) => {
    return `${textOf(side)},dcp=${Math.min(side.tp, dcp)},dcp-interleave=${interleave}`;
  });
const casesOf = (side: fc.Arbitrary<string>) =>
  fc
    .record({
      heads: fc.constantFrom(1, 2, 4, 8),
      layers: fc.integer({ min: 3, max: 7 }),
      prefill: side,
      decode: side,
      tokens: fc.integer({ min: 2, max: 60 }),
      prefix: fc.nat({ max: 30 }),
      mode: fc.constantFrom('read' as const, 'write' as const),
      placement: fc.constantFrom('contiguous' as const, 'scattered' as const),
      chunking: fc.boolean(),
    })
    .map(({ heads, layers, prefill, decode, prefix, ...changes }) =>
      requestOf(modelWith(layers, heads, 8), prefill, decode, {
        ...changes,
        prefix: prefix % changes.tokens,
      }),
    );
const wholeCases = casesOf(sides.map(textOf));
const cases = fc.oneof(wholeCases, casesOf(groupedSides));

function laid({ model, dtype, tokens, placement, ...request }: PlanRequest): [Side, Side] {
  return [
    laySide('--prefill', request.prefill, model, dtype, tokens, placement),
    laySide('--decode', request.decode, model, dtype, tokens, placement),
  ];
}

function engineOf(side: Side): EngineSide {
  const { tp, pp } = side.plan;
  const ranks = Array.from({ length: tp * pp }, (_, rank) => {
    return { tpRank: rank % tp, layers: cachesOf(side, rank) };
  });
  return { heads: side.model.heads, tpSize: tp, ranks };
}

describe('whatever the shapes', () => {
  test('every D rank gets each of its heads and layers once, from a P rank that has it', () => {
    fc.assert(
      fc.property(wholeCases, (request) => {
        const { model } = request;
        const { pairs, prefill, decode, refused } = planOf(request);
        expect(refused).toBeNull();
        for (let rank = 0; rank < decode.tp * decode.pp; rank++) {
          const got: string[] = [];
          for (const pair of pairs.filter(({ decodeRank }) => decodeRank === rank)) {
            for (let layer = pair.layers[0]; layer < pair.layers[1]; layer++) {
              const stage = prefill.stages[Math.floor(pair.prefillRank / prefill.tp)]!;
              expect(layer >= stage[0] && layer < stage[1]).toBe(true);
              for (let head = pair.heads[0]; head < pair.heads[1]; head++) got.push(`${layer}/${head}`);
            }
          }
          const stage = decode.stages[Math.floor(rank / decode.tp)]!;
          const share = Math.max(1, model.heads / decode.tp);
          const first = Math.floor(((rank % decode.tp) * model.heads) / decode.tp);
          const wanted: string[] = [];
          for (let layer = stage[0]; layer < stage[1]; layer++)
            for (let head = first; head < first + share; head++) wanted.push(`${layer}/${head}`);
          expect(got.sort()).toEqual(wanted.sort());
        }
      }),
      SEED,
    );
  });

  test('bytes are tokens by bytes per token, once for each copy at D', () => {
    fc.assert(
      fc.property(cases, (request) => {
        const report = planOf(request);
        const copies = Math.max(1, report.decode.tp / report.decode.dcp / request.model.heads);
        const moved = request.tokens - request.prefix;
        expect(report.totalBytes).toBe(
          copies * moved * request.model.layers * request.model.heads * 2 * 8 * 2,
        );
        for (const pair of report.pairs) {
          expect(pair.runs).toBeLessThanOrEqual(pair.runsBefore);
          expect(pair.workRequests).toBeGreaterThan(0);
          if (!request.chunking) expect(pair.workRequests).toBeLessThanOrEqual(pair.runs);
        }
      }),
      SEED,
    );
  });

  test('a pair that was not planned itself has the load that planning it gives', () => {
    fc.assert(
      fc.property(cases, (request) => {
        const { tokens, prefix, mode, chunking } = request;
        const [prefill, decode] = laid(request);
        for (const pair of planOf(request).pairs) {
          const isShared = ({ layer }: { layer: number }): boolean =>
            layer >= pair.layers[0] && layer < pair.layers[1];
          const there = cachesOf(decode, pair.decodeRank).filter(isShared);
          const layers = cachesOf(prefill, pair.prefillRank)
            .filter(isShared)
            .map((view, at) => ({ prefill: view, decode: there[at]!, tokens: [prefix, tokens] as const }));
          const terms = {
            mode,
            chunking,
            prefillBlocks: prefill.blocks,
            decodeBlocks: decode.blocks,
            allLayersAtOnce: prefill.crossLayer && decode.crossLayer,
            scattered: request.placement === 'scattered',
          };
          const bounds = boundsOfBatches(layers, terms);
          const load = measure(layers, terms, createRoom(terms, bounds));
          const { runsBefore, runs, bytes, workRequests } = pair;
          expect(load).toEqual({ runsBefore, runs, bytes, workRequests });
        }
      }),
      { ...SEED, numRuns: 60 },
    );
  });

  test('the connector plans the same pairs, runs and bytes', () => {
    fc.assert(
      fc.property(cases, (request) => {
        const [prefill, decode] = laid(request);
        const isWrite = request.mode === 'write';
        const [local, remote] = isWrite ? [prefill, decode] : [decode, prefill];
        const transfers = planTransfer({
          operation: request.mode,
          local: engineOf(local),
          remote: engineOf(remote),
          localBlocks: [{ blocks: local.blocks, firstToken: 0 }],
          remoteBlocks: [{ blocks: remote.blocks, firstToken: 0 }],
          tokenFrom: request.prefix,
          tokenTo: request.tokens,
        });
        const wanted = new Map<string, { runs: number; bytes: number }>();
        for (const { localRank, remoteRank, runs } of transfers) {
          const key = isWrite ? `P${localRank} D${remoteRank}` : `P${remoteRank} D${localRank}`;
          const sum = wanted.get(key) ?? { runs: 0, bytes: 0 };
          for (let at = 2; at < runs.length; at += 3) sum.bytes += runs[at]!;
          sum.runs += runs.length / 3;
          wanted.set(key, sum);
        }
        // The connector also joins what touches across two layers' tensors, which scattered blocks can do.
        const exact = request.placement === 'contiguous';
        const loads = planOf(request).pairs.map(({ prefillRank, decodeRank, runs, bytes }) => {
          return [`P${prefillRank} D${decodeRank}`, exact ? { runs, bytes } : { bytes }] as const;
        });
        expect(loads).toHaveLength(wanted.size);
        for (const [key, load] of loads) expect([key, wanted.get(key)]).toMatchObject([key, load]);
      }),
      SEED,
    );
  });
});
