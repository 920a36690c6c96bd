import { describe, expect, test } from 'vitest';
import { readSide, stageRanges } from '../../../src/cli/plan/side-spec.ts';

describe('a side', () => {
  test('has a default for every key', () => {
    expect(readSide('--prefill', 'tp=8')).toEqual({
      tp: 8,
      pp: 1,
      dcp: 1,
      dcpInterleave: 1,
      block: 16,
      kernelBlock: 16,
      layout: null,
      blocks: null,
      stages: null,
      dtype: null,
    });
  });

  test('takes all keys in any order', () => {
    const text =
      'kernel-block=16,layout=packed-hnd,dtype=fp8,blocks=9,stages=3+5,block=64,tp=2,pp=2,dcp-interleave=8,dcp=2';
    expect(readSide('--decode', text)).toEqual({
      tp: 2,
      pp: 2,
      dcp: 2,
      dcpInterleave: 8,
      block: 64,
      kernelBlock: 16,
      layout: 'packed-hnd',
      blocks: 9,
      stages: [3, 5],
      dtype: 'fp8',
    });
    expect(readSide('--decode', 'stages=3+5').pp).toBe(2);
  });

  test.each([
    ['', '"" is not key=value'],
    ['tp', '"tp" is not key=value'],
    ['tp=', '"tp=" is not key=value'],
    ['tp=8,,pp=2', '"" is not key=value'],
    ['dp=8', '"dp" is not a key; use tp, pp'],
    ['tp=8,tp=8', 'tp is given twice'],
    ['tp=0', 'tp=0: must be an integer from 1 to 256'],
    ['tp=-1', 'tp=-1: must be an integer'],
    ['tp=1e3', 'tp=1e3: must be an integer'],
    ['pp=65', 'pp=65: must be an integer from 1 to 64'],
    ['tp=256,pp=8', '256 x 8 ranks, at most 1024'],
    ['block=a\nb', 'block="a\\nb": must be an integer'],
    ['block=16,kernel-block=5', 'kernel-block=5: must divide block=16'],
    ['tp=8,dcp=3', 'dcp=3: must divide tp=8'],
    ['dcp=2', 'dcp=2: must divide tp=1'],
    ['tp=2,dcp=2,dcp-interleave=3', 'dcp-interleave=3: must divide block=16'],
    ['layout=hnd', 'layout=hnd: unknown; use one of kv-first-nhd'],
    ['layout=mamba', 'layout=mamba: unknown'],
    ['dtype=int8', 'dtype=int8: unknown; use one of bfloat16'],
    ['stages=3+', 'stages=3+: must be layers of each stage'],
    ['pp=3,stages=3+5', 'stages=3+5: 2 stages, pp=3'],
  ])('is refused: %j', (text, complaint) => {
    expect(() => readSide('--prefill', text)).toThrow(complaint);
    expect(() => readSide('--prefill', text)).toThrow(/^--prefill/);
  });
});

describe('the layers of stages', () => {
  // By vLLM's rule: what is left over goes to the last stage but one and those before it.
  test.each([
    ['pp=1', 80, [[0, 80]]],
    [
      'pp=2',
      61,
      [
        [0, 31],
        [31, 61],
      ],
    ],
    [
      'pp=4',
      94,
      [
        [0, 23],
        [23, 47],
        [47, 71],
        [71, 94],
      ],
    ],
    [
      'pp=3',
      5,
      [
        [0, 2],
        [2, 4],
        [4, 5],
      ],
    ],
    [
      'stages=2+1+2',
      5,
      [
        [0, 2],
        [2, 3],
        [3, 5],
      ],
    ],
  ])('%s of %i', (text, layers, ranges) => {
    expect(stageRanges('--prefill', readSide('--prefill', text), layers)).toEqual(ranges);
  });

  test.each([
    ['pp=6', 'pp=6: the model has only 5 layers'],
    ['stages=2+2', 'stages=2+2: 4 layers, the model has 5'],
  ])('are refused for %s of 5', (text, complaint) => {
    expect(() => stageRanges('--decode', readSide('--decode', text), 5)).toThrow(`--decode ${complaint}`);
  });
});
