import { describe, expect, test } from 'vitest';
import { laySide } from '../../../src/cli/plan/ranks.ts';
import { readSide } from '../../../src/cli/plan/side-spec.ts';
import { each, modelWith, planned } from './plan-helpers.ts';

describe('equal sides', () => {
  test('move K and V of each layer in one run each, however many blocks', () => {
    const report = planned('llama-3-70b', 'tp=8', 'tp=8', { tokens: 32_768 });
    expect(report.pairs).toHaveLength(8);
    for (const [rank, pair] of report.pairs.entries())
      expect(pair).toMatchObject({
        prefillRank: rank,
        decodeRank: rank,
        layers: [0, 80],
        heads: [rank, rank + 1],
        runsBefore: 80 * 2 * 2048,
        runs: 80 * 2,
        bytes: (32_768 * 327_680) / 8,
        workRequests: 80 * 2,
      });
    expect(report).toMatchObject({ bytesPerToken: 327_680, totalBytes: 32_768 * 327_680, refused: null });
  });

  test('move a run for each block when the blocks lie apart', () => {
    const report = planned('llama-3-70b', 'tp=8', 'tp=8', { placement: 'scattered' });
    expect(report.pairs[0]).toMatchObject({ runsBefore: 80 * 2 * 256, runs: 80 * 2 * 256 });
  });

  test('move one run in all where layers and blocks lie in one tensor', () => {
    const side = 'tp=8,layout=unified-bhlnc';
    const report = planned('llama-3-70b', side, side);
    expect(report.pairs[0]).toMatchObject({ runsBefore: 80 * 256, runs: 1, workRequests: 1 });
    expect(report.notes.join()).toMatch(/one batch/);
  });

  test('keep two tensors apart that each begin at 0', () => {
    const report = planned('llama-3-8b', 'layout=sglang-mha', 'layout=sglang-mha');
    expect(report.pairs[0]).toMatchObject({ runs: 32 * 2, workRequests: 32 * 2, bytes: 4096 * 131_072 });
  });
});

describe('TP 8 to 4', () => {
  const report = planned('llama-3-70b', 'tp=8', 'tp=4', { tokens: 32_768 });

  test('pairs two P ranks with each D rank', () => {
    expect(each(report, 'prefillRank')).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(each(report, 'decodeRank')).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(each(report, 'heads')).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((head) => [head, head + 1]));
  });

  test('takes a run for each block, as D has another head between', () => {
    for (const pair of report.pairs)
      expect(pair).toMatchObject({ runs: 80 * 2 * 2048, workRequests: 80 * 2 * 2048 });
    expect(report.totalBytes).toBe(32_768 * 327_680);
  });

  test('is timed by the NIC of D, into which two P ranks send', () => {
    const wire = Math.ceil((2 * 32_768 * 327_680) / 8 / 48_000);
    const issue = Math.ceil((80 * 2 * 2048) / 7);
    expect(each(report, 'micros')).toEqual(new Array(8).fill(5 + Math.max(wire, issue)));
    expect(report.slowestMicros).toBe(5 + wire);
  });
});

describe('TP 4 to 8', () => {
  const blocks = 80 * 2 * 256;

  test('in WRITE joins four blocks of P to a work request, as D holds one head without gaps', () => {
    const report = planned('llama-3-70b', 'tp=4', 'tp=8');
    expect(report.pairs[0]).toMatchObject({ runs: blocks, workRequests: blocks / 4 });
  });

  test('in READ joins nothing, as it is P who has gaps', () => {
    const report = planned('llama-3-70b', 'tp=4', 'tp=8', { mode: 'read' });
    expect(report.pairs[0]).toMatchObject({ runs: blocks, workRequests: blocks });
  });

  test('of a head-inside-token layout takes a run for each token', () => {
    const report = planned('llama-3-70b', 'tp=4,layout=kv-first-nhd', 'tp=8,layout=kv-first-nhd');
    expect(report.pairs[0]).toMatchObject({ runsBefore: 80 * 2 * 4096, runs: 80 * 2 * 4096 });
  });
});

describe('a latent cache', () => {
  test('of block 16 goes to block 64 whole when blocks are adjacent', () => {
    const report = planned('deepseek-v3', 'block=16', 'block=64');
    expect(report.pairs[0]).toMatchObject({ runsBefore: 61 * 256, runs: 61, bytes: 4096 * 70_272 });
  });

  test('of block 16 goes to block 64 in pieces of 16 when they are not', () => {
    const report = planned('deepseek-v3', 'block=16', 'block=64', { placement: 'scattered' });
    expect(report.pairs[0]).toMatchObject({ runsBefore: 61 * 256, runs: 61 * 256 });
  });

  test('is held by every rank, so each D rank takes all of it from one P rank', () => {
    const report = planned('deepseek-v3', 'tp=8', 'tp=4');
    expect(each(report, 'prefillRank')).toEqual([0, 1, 2, 3]);
    expect(report.totalBytes).toBe(4 * 4096 * 70_272);
    const wider = planned('deepseek-v3', 'tp=4', 'tp=8');
    expect(each(wider, 'prefillRank')).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(wider.totalBytes).toBe(8 * 4096 * 70_272);
  });

  test.each(['bfloat16', 'fp8_ds_mla'] as const)(
    'moves a latent row of %s between the layouts that hold it',
    (dtype) => {
      const report = planned('deepseek-v3', 'layout=mla', 'layout=unified-lbhnc', { dtype });
      const back = planned('deepseek-v3', 'layout=unified-blhnc', 'layout=sglang-mla', { dtype });
      for (const { refused, totalBytes } of [report, back]) {
        expect(refused).toBeNull();
        expect(totalBytes).toBe(4096 * 61 * (dtype === 'bfloat16' ? 1152 : 656));
      }
    },
  );

  test('in fp8 with scales has 656 bytes a token', () => {
    const report = planned('deepseek-v3', 'tp=1', 'tp=1', { dtype: 'fp8_ds_mla' });
    expect(report.pairs[0]).toMatchObject({ runs: 61, bytes: 4096 * 61 * 656 });
    expect(report.prefill.layout).toBe('mla-fp8');
  });
});

describe('pipeline stages', () => {
  test('1 to 2 sends each half of the layers to its stage', () => {
    const report = planned('llama-3-8b', 'pp=1', 'pp=2');
    expect(
      report.pairs.map(({ prefillRank, decodeRank, layers }) => [prefillRank, decodeRank, layers]),
    ).toEqual([
      [0, 0, [0, 16]],
      [0, 1, [16, 32]],
    ]);
  });

  test('3 to 2 cuts where either side does', () => {
    const report = planned(modelWith(12, 4, 8), 'tp=2,pp=3', 'tp=2,pp=2');
    expect(
      report.pairs.map(({ prefillRank, decodeRank, layers }) => [prefillRank, decodeRank, layers]),
    ).toEqual([
      [0, 0, [0, 4]],
      [1, 1, [0, 4]],
      [2, 0, [4, 6]],
      [2, 2, [6, 8]],
      [3, 1, [4, 6]],
      [3, 3, [6, 8]],
      [4, 2, [8, 12]],
      [5, 3, [8, 12]],
    ]);
  });
});

test('a prefix at D is not moved, and a last block is moved as far as it is filled', () => {
  const report = planned('llama-3-8b', 'tp=1', 'tp=1', { tokens: 1000, prefix: 100 });
  expect(report.totalBytes).toBe(900 * 131_072);
  // 100 = 6 blocks and 4 tokens, 1000 = 62 blocks and 8; K and V of 8 heads each of 256 bytes. A full block is one run.
  expect(report.pairs[0]!.runsBefore).toBe(32 * 2 * (56 - 1 + 16));
});

test('pages that cannot be taken apart are moved whole', () => {
  const report = planned('llama-3-8b', 'layout=shuffled', 'layout=shuffled', { tokens: 100 });
  expect(report.totalBytes).toBe(112 * 131_072);
});

test('layers with a window move all of it, or what D still sees', () => {
  const whole = planned('gpt-oss-120b', 'tp=1', 'tp=1');
  expect(whole.totalBytes).toBe(4096 * 73_728);
  expect(whole.notes[0]).toMatch(/18 of 36 layers .* moved whole/);
  const window = planned('gpt-oss-120b', 'tp=1', 'tp=1', { sliding: 'window' });
  expect(window.totalBytes).toBe(((4096 + 128) * 73_728) / 2);
});

describe('chunking', () => {
  test('cuts long work requests at 64 KiB, in at most 64 pieces', () => {
    // One head of 256 bytes: 4096 tokens are 1 MiB in each of K and V, 32,768 are 8 MiB.
    const short = planned('llama-3-70b', 'tp=8', 'tp=8', { chunking: true });
    expect(short.pairs[0]!.workRequests).toBe(80 * 2 * 16);
    const long = planned('llama-3-70b', 'tp=8', 'tp=8', { chunking: true, tokens: 32_768 });
    expect(long.pairs[0]!.workRequests).toBe(80 * 2 * 64);
  });
});

describe('a run beyond 4 GiB', () => {
  // One token of one layer has 2 x 4096 x 2 bytes: 2^20 tokens are 16 GiB, 8 in each of K and V.
  const args = [modelWith(1, 1, 4096), 'layout=packed-hnd', 'layout=packed-hnd'] as const;

  test('is more than one message, and is refused', () => {
    expect(planned(...args, { tokens: 2 ** 20 }).refused).toMatch(/exceeds local max_msg_sz/);
  });

  test('is moved when it may be cut', () => {
    const { pairs, refused } = planned(...args, { tokens: 2 ** 20, chunking: true });
    expect(refused).toBeNull();
    expect(pairs[0]).toMatchObject({ runs: 1, bytes: 2 ** 34 });
    expect(pairs[0]!.workRequests).toBeGreaterThanOrEqual(64);
    expect(pairs[0]!.workRequests).toBeLessThan(200);
  });
});

describe('the time', () => {
  test.each([
    ['cx7', 'write', 5_720, 100, 50, 49_750],
    ['cx7', 'read', 6_400, 100, 50, 44_400],
    ['thor2', 'write', 13_000, 620, 140, 49_800],
    ['thor2', 'read', 73_400, 620, 140, 48_100],
  ] as const)(
    'with %s in %s is posting, wire and base',
    (nic, mode, baseNanos, postNanos, requestNanos, bytesPerMicro) => {
      const report = planned('llama-3-8b', 'tp=1', 'tp=1', { nic, mode });
      const posting = postNanos + report.pairs[0]!.workRequests * requestNanos;
      const wire = Math.ceil((4096 * 131_072 * 1000) / bytesPerMicro);
      expect(report.slowestMicros).toBe(Math.ceil((posting + wire + baseNanos) / 1000));
    },
  );

  test('of many small work requests is what the queue pair takes', () => {
    const report = planned(modelWith(2, 8, 8), 'tp=8,layout=kv-first-nhd', 'tp=1,layout=kv-first-nhd');
    expect(report.slowestMicros).toBe(Math.ceil((5_000 + 2 * 2 * 4096 * 143) / 1000));
  });
});

describe('refused', () => {
  test.each([
    ['TP that does not go with the heads', 'qwen3-8b', 'tp=3', 'tp=8', /^P: 8 KV heads cannot .* 3 TP ranks/],
    ['the same at D', 'qwen3-8b', 'tp=8', 'tp=6', /^D: 8 KV heads cannot .* 6 TP ranks/],
    ['another type', 'qwen3-8b', 'dtype=fp8', 'tp=1', /^P0 \(here\) and D0 \(the peer\): layer 0: /],
    [
      'pages of unequal length',
      'qwen3-8b',
      'layout=shuffled',
      'layout=shuffled,block=32',
      /layer 0: .*(4096 bytes|cannot be taken apart)/,
    ],
    ['shuffled and plain', 'qwen3-8b', 'layout=shuffled', 'tp=1', /layer 0: /],
    ['fp8 with scales and without', 'deepseek-v3', 'dtype=fp8_ds_mla', 'dtype=fp8', /layer 0: .*(part|form)/],
  ])('%s', (_, model, prefill, decode, cause) => {
    const report = planned(model, prefill, decode);
    expect(report.refused).toMatch(cause);
    expect(report).toMatchObject({ pairs: [], totalBytes: 0, slowestMicros: 0 });
  });

  test('a work request that is longer than a message, unless it is cut', () => {
    const args = ['llama-3-70b', 'tp=8,layout=unified-bhlnc', 'tp=8,layout=unified-bhlnc'] as const;
    const report = planned(...args, { tokens: 32_768 });
    expect(report.refused).toMatch(
      /^the engine: .*exceeds local max_msg_sz 1073741824; enable RDMA transfer chunking/,
    );
    expect(planned(...args, { tokens: 32_768, chunking: true }).refused).toBeNull();
  });
});

test.each([
  [
    'too few blocks',
    'llama-3-8b',
    'blocks=255',
    'tp=1',
    /--prefill blocks=255: 4080 tokens fit, 4096 are wanted/,
  ],
  [
    'a latent layout',
    'llama-3-8b',
    'tp=1',
    'layout=mla',
    /--decode layout=mla: llama-3-8b has a K and V cache/,
  ],
  [
    'a layout for K and V',
    'deepseek-v3',
    'layout=packed-hnd',
    'tp=1',
    /--prefill layout=packed-hnd: .* latent cache/,
  ],
  ['a type it cannot have', 'llama-3-8b', 'dtype=fp8_ds_mla', 'tp=1', /fp8_ds_mla is for latent caches/],
  ['more stages than layers', 'llama-3-8b', 'pp=33', 'tp=1', /--prefill pp=33: the model has only 32 layers/],
])('a wrong side is an error: %s', (_, model, prefill, decode, complaint) => {
  expect(() => planned(model, prefill, decode)).toThrow(complaint);
});

test('a plan that would not fit in memory is an error', () => {
  const side = 'layout=cross-layer-nhd';
  expect(() => planned('llama-3-70b', 'tp=8,layout=cross-layer-nhd', side, { tokens: 131_072 })).toThrow(
    /give fewer --tokens/,
  );
});

test('scattered block lists name each block once and no two neighbours in a row', () => {
  for (const [tokens, blocks] of [
    [160, 10],
    [320, 40],
    [3200, 201],
  ] as const) {
    const side = readSide('--decode', `blocks=${blocks}`);
    const laid = laySide('--decode', side, modelWith(1, 1, 8), 'bfloat16', tokens, 'scattered').blocks;
    expect(new Set(laid).size).toBe(tokens / 16);
    expect(Math.max(...laid)).toBeLessThan(blocks);
    for (let i = 1; i < laid.length; i++) expect(Math.abs(laid[i]! - laid[i - 1]!)).not.toBe(1);
  }
});
