import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as product from '../../../src/index.ts';
import * as facade from '../../../src/io/index.ts';
import * as mori from '../../../src/mori.ts';
import { filesBelow, ROOT, textOf } from '../../tidy/source.ts';

/** What a user of MoRI-IO finds in the package: names, numbers, and a word on each. */

describe('the package', () => {
  test('offers the engine as an entry of its own, and no name of it elsewhere', () => {
    expect({ ...mori }).toEqual({ ...facade });
    expect(Object.keys(product).filter((name) => Object.hasOwn(facade, name))).toEqual([]);
  });

  test("has upstream's numbers", () => {
    expect(facade.BackendType).toEqual({ Unknown: 0, XGMI: 1, RDMA: 2, TCP: 3, FABRIC: 4 });
    expect(facade.MemoryLocationType).toEqual({ Unknown: 0, CPU: 1, GPU: 2 });
    expect(facade.PollCqMode).toEqual({ POLLING: 0, EVENT: 1 });
    expect(facade.StatusCode).toEqual({
      SUCCESS: 0,
      INIT: 1,
      IN_PROGRESS: 2,
      ERR_BEGIN: 10,
      ERR_INVALID_ARGS: 11,
      ERR_NOT_FOUND: 12,
      ERR_RDMA_OP: 13,
      ERR_BAD_STATE: 14,
      ERR_GPU_OP: 15,
    });
  });
});

describe('the page about the engine', () => {
  const page = readFileSync(`${ROOT}docs/ENGINE.md`, 'utf8');
  const ours = page
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|')[2]!);

  test('names functions that are there, in its table and below', () => {
    const words = [...ours.join(' ').matchAll(/`([a-z]\w+)`/g)].map(([, word]) => word!);
    expect(words.length).toBeGreaterThan(25);
    expect(words.filter((word) => !Object.hasOwn(facade, word))).toEqual([]);
  });

  test('leaves no function of the facade without a mention', () => {
    const silent = new Set(['emptyEngineDesc', 'emptyMemoryDesc', 'showStatus', 'alive', 'statusName']);
    const functions = Object.entries(facade).flatMap(([name, value]) =>
      typeof value === 'function' ? [name] : [],
    );
    expect(functions.filter((name) => !page.includes(name) && !silent.has(name))).toEqual([]);
  });
});

test('every function of the facade has a word above it', () => {
  const sources = filesBelow('src/io', '.ts').map(textOf).join('\n');
  const bare = Object.entries(facade)
    .filter(([, value]) => typeof value === 'function')
    .filter(([name]) => !new RegExp(`\\*/\\nexport function ${name}\\b`).test(sources))
    .map(([name]) => name);
  expect(bare).toEqual([]);
});
