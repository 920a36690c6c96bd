import { spawnSync } from 'node:child_process';
import { type NativeFabric, type NativeProvider, openNativeFabric } from '../../src/node/native-fabric.ts';
import type { WorldMemory } from '../../src/sim/memory.ts';
import { newMemory } from './world.ts';

/** What tests of the native fabric share: where it is missing they are left out, with the reason in their name. */

/** Set by .ci/run: there a missing addon is a failure. What wants a NIC is asked for by its own name, such as MORIARTY_VERBS. */
function required(provider: NativeProvider): boolean {
  const isAnywhere = provider === 'shm' || provider === 'tcp';
  const variable = isAnywhere ? 'MORIARTY_NATIVE' : `MORIARTY_${provider.toUpperCase()}`;
  return process.env['CI'] === 'true' && process.env[variable] === 'required';
}

export interface Availability {
  readonly missing: boolean;
  /** For the title of a suite. */
  readonly note: string;
}

/** Opens the provider once to know. Where it is required it counts as there, and its tests fail with the reason. */
export function availability(provider: NativeProvider): Availability {
  const { bytes, runsMax } = newMemory();
  const opened = openNativeFabric({ provider, memory: bytes, runsMax });
  if (opened.fabric !== null) {
    void opened.fabric.close();
    return { missing: false, note: '' };
  }
  process.stderr.write(`native ${provider}: not available, because ${opened.reason}\n`);
  return { missing: !required(provider), note: ` (not available, because ${opened.reason})` };
}

export function openNative(provider: NativeProvider, memory: WorldMemory, queuePairs = 1): NativeFabric {
  const opened = openNativeFabric({ provider, memory: memory.bytes, runsMax: memory.runsMax, queuePairs });
  if (opened.fabric === null) throw new TypeError(`native ${provider}: ${opened.reason}`);
  return opened.fabric;
}

const CXX = process.env['CXX'] ?? 'g++';

/** Whether C++ can be compiled here. Where .ci/run runs it counts as there, and the tests fail with the reason. */
export function canCompile(): boolean {
  return required('shm') || spawnSync(CXX, ['--version']).status === 0;
}

export function compile(to: string, args: readonly string[]): void {
  const { status, stderr } = spawnSync(CXX, ['-std=c++17', ...args, '-o', to], { encoding: 'utf8' });
  if (status !== 0) throw new TypeError(`${CXX}: ${stderr}`);
}
