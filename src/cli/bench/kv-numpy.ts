import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { packageFile } from '../../node/package-file.ts';

const SCRIPT_FILE = 'bench/numpy/blocks.py';
const MILLISECONDS_MAX = 300_000;

/** The input of bench/numpy/blocks.py. */
export interface BlockLists {
  readonly localIds: readonly number[];
  readonly remoteIds: readonly number[];
  readonly localBases: readonly number[];
  readonly remoteBases: readonly number[];
  /** Bytes of a block, and from one block to the next on both sides. */
  readonly stride: number;
}

/** Its output: median seconds, timed inside Python; and what tells whether the rows are the right ones. */
export interface NumpyResult {
  readonly seconds: number;
  readonly rows: number;
  readonly sum: number;
}

export type NumpyForm = 'repeated' | 'vectorised';
export type Numpy = (form: NumpyForm, rounds: number, lists: BlockLists) => NumpyResult;

/** A Python that has numpy; or why there is none. */
export function findNumpy(): Numpy | { readonly missing: string } {
  const script = packageFile(SCRIPT_FILE);
  if (!existsSync(script)) return { missing: 'bench/numpy is not here: it is not part of the package' };
  const python = ['python3', '/usr/bin/python3'].find((command) => {
    return spawnSync(command, ['-c', 'import numpy'], { stdio: 'ignore' }).status === 0;
  });
  if (python === undefined) return { missing: 'no python3 with numpy' };
  return (form, rounds, lists) => {
    const output = execFileSync(python, [script, form, String(rounds)], {
      input: JSON.stringify(lists),
      stdio: ['pipe', 'pipe', 'inherit'],
      timeout: MILLISECONDS_MAX,
    });
    return JSON.parse(output.toString()) as NumpyResult;
  };
}
