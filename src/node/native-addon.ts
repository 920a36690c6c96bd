import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { packageFile } from './package-file.ts';

/** Of native-bridge/src/addon.cpp: what it gives to JavaScript. All calls return at once. */
export interface NativeAddon {
  about(): {
    readonly interface: number;
    readonly library: string;
    readonly built: string;
    readonly running: string;
  };
  errorText(error: number): string;
  /** Zeros on whole pages. Throws a TypeError with the code FABRIC-MEMORY. */
  allocate(bytes: number): ArrayBuffer;
  open(
    provider: string,
    memory: ArrayBuffer,
    control: ArrayBuffer,
    slots: number,
    runsMax: number,
    /** Dotted IPv4 at which other processes may ask for the engine; empty: none may. */
    host: string,
    patienceMillis: number,
  ): EngineHandle;
  addRegion(engine: EngineHandle, start: number, end: number): number;
  /** The key of GPU memory; 0 when this half has none, or the place cannot be registered. */
  addDeviceRegion(engine: EngineHandle, pointer: bigint, bytes: number, device: number): number;
  dropRegion(engine: EngineHandle, key: number): void;
  /** One of REFUSAL. */
  post(
    engine: EngineHandle,
    localKey: number,
    remoteKey: number,
    isWrite: boolean,
    count: number,
    id: number,
  ): number;
  /** Whether nobody, here or in another process, can touch any more what the key named. */
  isGone(engine: EngineHandle, key: number): boolean;
  /** `wake` is called on this thread once after each `arm`, when something has ended or changed. */
  setWaker(engine: EngineHandle, wake: () => void): void;
  arm(engine: EngineHandle): void;
  /** Whether the event loop stays alive for the waker; at first it does not. */
  holdLoop(engine: EngineHandle, held: boolean): void;
  /** Where others can ask for the engine; null when they cannot. */
  door(engine: EngineHandle): { readonly key: string; readonly host: string; readonly port: number } | null;
  addressOf(engine: EngineHandle, start: number): bigint;
  /** The number of a connection that is being made; 0 when there can be none. */
  connect(engine: EngineHandle, key: string, host: string, port: number): number;
  disconnect(engine: EngineHandle, peer: number): void;
  /** One of STATE, and for errorText what ended it. */
  peerState(engine: EngineHandle, peer: number): { readonly state: number; readonly error: number };
  /** The key of a region that the peer's engine registered as `id`; 0 when there is no such connection. */
  addPeerRegion(engine: EngineHandle, peer: number, id: number, address: bigint, bytes: number): number;
  close(engine: EngineHandle): void;
  /** True when the engine had ended; its buffers are free then. */
  release(engine: EngineHandle): boolean;
  /** A packed EngineDesc (0) or MemoryDesc (1) as MoRI unpacks and packs it; null when it cannot, or is not this half. */
  repack(kind: 0 | 1, bytes: ArrayBuffer): ArrayBuffer | null;
  /** EngineDesc and MemoryDesc, packed, of an engine without a backend and of this memory. Null of libfabric. */
  describe(memory: ArrayBuffer): readonly [ArrayBuffer, ArrayBuffer] | null;
}

/** Opaque. Collecting it closes the engine. */
export interface EngineHandle {
  readonly engine: unique symbol;
}

/** Layout of the control block and list of functions; the addon must say the same number. */
const INTERFACE = 4;

export const REFUSAL = { none: 0, outOfRange: 1, deadKey: 2, full: 3, notOpen: 4, tooLong: 5 } as const;
export const STATE = { opening: 0, open: 1, failed: 2, closed: 3 } as const;

/** Bytes of the header, of one completion record, and of one staged work request. */
export const HEADER_BYTES = 192;
export const RECORD_BYTES = 16;
export const STAGED_BYTES = 24;
/** Word offsets in the header. */
export const HEADER = { state: 0, openError: 1, produced: 16, consumed: 32 } as const;

/** The two halves of the bridge, each an addon of its own: neither needs the other's libraries. */
export type NativeHalf = 'libfabric' | 'mori';

interface Place {
  readonly file: string;
  /** Environment variable that names the file. */
  readonly variable: string;
  readonly remedy: string;
}

const PLACES: { readonly [half in NativeHalf]: Place } = {
  libfabric: {
    file: 'moriarty_native.node',
    variable: 'MORIARTY_NATIVE_ADDON',
    remedy:
      'the addon is not built (install g++ and libfabric-dev, then `npm run build:native`; elsewhere install native-bridge/ as a package)',
  },
  mori: {
    file: 'moriarty_mori.node',
    variable: 'MORIARTY_MORI_ADDON',
    remedy:
      'the MoRI-IO half is not built (set MORI_ROOT to where its headers and libraries are, then `npm run build:native`)',
  },
};

export type AddonFound =
  | { readonly addon: NativeAddon; readonly path: string }
  | {
      readonly addon: null;
      readonly reason: string;
      /** The file, when there is one. */
      readonly path: string | null;
    };

/**
 * The addon that the half's environment variable names, else the one in `native-bridge/build`, else the installed package
 * `moriarty-native`; or why there is none. Looks again at each call, and so sees one that was built meanwhile.
 */
export function findNativeAddon(half: NativeHalf = 'libfabric'): AddonFound {
  const path = addonPath(PLACES[half]);
  if (path === undefined) return { addon: null, path: null, reason: PLACES[half].remedy };
  try {
    const addon = createRequire(import.meta.url)(path) as NativeAddon;
    const { interface: theirs } = addon.about();
    if (theirs === INTERFACE) return { addon, path };
    return {
      addon: null,
      path,
      reason: `${path} has interface ${theirs}, this version needs ${INTERFACE}: run \`npm run build:native\``,
    };
  } catch (error) {
    return {
      addon: null,
      path,
      reason: `${path} cannot be loaded: ${(error as Error).message.split('\n')[0]}`,
    };
  }
}

/** Where `npm run build:native` leaves the addons. */
const BUILT = 'native-bridge/build/';

function addonPath({ file, variable }: Place): string | undefined {
  const named = process.env[variable];
  if (named !== undefined && named !== '') return named;
  const built = packageFile(BUILT + file);
  if (existsSync(built)) return built;
  try {
    return createRequire(import.meta.url).resolve(`moriarty-native/build/${file}`);
  } catch {
    return undefined;
  }
}
