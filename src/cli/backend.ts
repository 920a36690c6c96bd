import { UsageError } from '../base/failure.ts';
import type { RunOptions } from '../explore/run.ts';
import {
  NATIVE_PROVIDERS,
  type NativeFabric,
  type NativeProvider,
  openNativeFabric,
} from '../node/native-fabric.ts';
import type { WorldMemory } from '../sim/memory.ts';
import type { OptionRow } from './command.ts';
import { refuseClash } from './options.ts';

export type BackendName = 'wasm' | 'native';

export interface BackendFlags {
  readonly backend: BackendName;
  readonly provider?: NativeProvider;
}

/** What moves the bytes of a command's runs. */
export interface Backend {
  readonly options: Pick<RunOptions, 'fabric'>;
  /** As they were given, for a replay. */
  readonly flags: string;
  /** For a JSON document. */
  readonly told: { readonly fabric: BackendName; readonly provider: NativeProvider | null };
}

const PROVIDER_DEFAULT: NativeProvider = 'shm';

export const BACKEND_OPTION: OptionRow = {
  flag: '--backend <name>',
  text: 'what moves the bytes',
  choices: ['wasm', 'native'],
  usual: 'wasm',
};

export const PROVIDER_OPTION: OptionRow = {
  flag: '--provider <name>',
  text: `of the native backend: shared memory, TCP over loopback, an RDMA NIC of libfabric's (verbs, efa, cxi), or MoRI-IO over one (default: ${PROVIDER_DEFAULT})`,
  choices: NATIVE_PROVIDERS,
};

/** @throws UsageError NATIVE when the native backend is asked for and is not there. */
export function openBackend(flags: BackendFlags, memory: WorldMemory): Backend {
  refuseClash(
    flags.provider !== undefined && flags.backend !== 'native',
    '--provider is a choice of the native backend: add --backend native',
  );
  if (flags.backend === 'wasm') return { options: {}, flags: '', told: { fabric: 'wasm', provider: null } };
  const provider = flags.provider ?? PROVIDER_DEFAULT;
  return {
    options: { fabric: fabricOfRuns(openNative(provider, memory)) },
    flags: ` --backend native --provider ${provider}`,
    told: { fabric: 'native', provider },
  };
}

/** @throws UsageError NATIVE */
export function openNative(
  provider: NativeProvider | undefined,
  { bytes, runsMax }: WorldMemory,
  queuePairs = 1,
): NativeFabric {
  const opened = openNativeFabric({
    provider: provider ?? PROVIDER_DEFAULT,
    memory: bytes,
    runsMax,
    // MoRI-IO shares its own queue pairs out by itself.
    queuePairs: provider === 'mori' ? 1 : queuePairs,
  });
  if (opened.fabric !== null) return opened.fabric;
  throw new UsageError(
    'NATIVE',
    `native: not available, because ${opened.reason}; \`moriarty doctor\` tells more`,
  );
}

/** One engine for all runs: each begins without a region. */
export function fabricOfRuns(fabric: NativeFabric): () => NativeFabric {
  return () => {
    fabric.reset();
    return fabric;
  };
}
