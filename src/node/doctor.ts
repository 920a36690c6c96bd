import { existsSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { complaints, type Linked, linkedOf } from './linked.ts';
import { type AddonFound, findNativeAddon } from './native-addon.ts';
import { type NativeProvider, openNativeFabric } from './native-fabric.ts';

/** One thing that a backend needs, and where it is. */
export interface Need {
  readonly what: string;
  /** Whether it is needed to build the addon or to run it. */
  readonly when: 'build' | 'run';
  readonly found: string | null;
  /** What to do when it is missing. */
  readonly remedy: string;
}

export interface BackendHealth {
  readonly available: boolean;
  /** Null when it is available. */
  readonly reason: string | null;
  readonly version: string | null;
  readonly needs: readonly Need[];
}

/** One half of the bridge. */
export interface HalfHealth extends BackendHealth {
  readonly addon: string | null;
  readonly builtAgainst: string | null;
}

export interface LibfabricHealth extends HalfHealth {
  /** Each was opened, and moved some bytes. */
  readonly providers: Readonly<Record<Exclude<NativeProvider, 'mori'>, ProviderHealth>>;
}

export interface ProviderHealth {
  readonly works: boolean;
  readonly reason: string | null;
}

/** Looks for all that the libfabric half needs, loads the addon, and lets each provider move a page. */
export function examineLibfabric(): LibfabricHealth {
  const found = findNativeAddon();
  const linked = linkedOfAddon(found);
  const about = found.addon === null ? null : found.addon.about();
  const [shm, tcp] = [tryProvider('shm'), tryProvider('tcp')];
  const [verbs, efa, cxi] = [tryProvider('verbs'), tryProvider('efa'), tryProvider('cxi')];
  const providers = { shm, tcp, verbs, efa, cxi };
  const works = Object.values(providers).some((provider) => provider.works);
  const reason =
    found.addon === null ? whyNotLoaded(found.reason, linked) : works ? null : providers.shm.reason;
  return {
    available: works,
    reason,
    version: about?.running ?? null,
    addon: found.addon === null ? null : found.path,
    builtAgainst: about?.built ?? null,
    providers,
    needs: libfabricNeeds(linked),
  };
}

/** Of the bridge, which lies beside the addon that Node loads; null when there is none to be asked. */
function linkedOfAddon({ path }: AddonFound): Linked | null {
  return path === null ? null : linkedOf(path.replace(/\.node$/, '_bridge.so'));
}

/** The linker names who asked for what is missing; what was taken for the library that should have it is the other half. */
function whyNotLoaded(reason: string, linked: Linked | null): string {
  const found = linked === null ? [] : complaints(linked);
  const where = process.env['LD_LIBRARY_PATH'] ? ' (LD_LIBRARY_PATH is searched first)' : '';
  return found.length === 0 ? reason : `${reason}: ${found.join('; ')}${where}`;
}

const PAGE_BYTES = 65_536;
const HALF = PAGE_BYTES / 2;

/** Opens the provider on a page of its own and has one half written over the other. */
function tryProvider(provider: NativeProvider): ProviderHealth {
  const memory = new Uint8Array(PAGE_BYTES);
  const opened = openNativeFabric({ provider, memory, runsMax: 1 });
  if (opened.fabric === null) return { works: false, reason: opened.reason };
  const { fabric } = opened;
  try {
    memory.fill(0x5a, 0, HALF);
    const [from, to] = [fabric.registerMemory(0, 0, HALF), fabric.registerMemory(1, HALF, PAGE_BYTES)];
    fabric.post(fabric.connect(from, to), 'write', [0, 0, HALF], 1);
    let [ended] = fabric.poll();
    while (ended === undefined) {
      fabric.rest();
      [ended] = fabric.poll();
    }
    if (ended.code !== 0) return { works: false, reason: ended.message };
    const arrived = memory.every((byte) => byte === 0x5a);
    return {
      works: arrived,
      reason: arrived ? null : `${provider}: reported success, but the bytes are not there`,
    };
  } catch (error) {
    return { works: false, reason: (error as Error).message };
  } finally {
    void fabric.close();
  }
}

/** The same of the MoRI-IO half. Its reason tells what MoRI-IO itself said, behind a code of the bridge. */
export function examineMori(): HalfHealth {
  const found = findNativeAddon('mori');
  const linked = linkedOfAddon(found);
  const needs = moriNeeds(linked);
  if (found.addon === null) {
    const reason = whyNotLoaded(found.reason, linked);
    return { available: false, reason, version: null, addon: null, builtAgainst: null, needs };
  }
  const { running, built } = found.addon.about();
  const { works, reason } = tryProvider('mori');
  return { available: works, reason, version: running, addon: found.path, builtAgainst: built, needs };
}

function need(what: string, when: Need['when'], found: string | null, remedy: string): Need {
  return { what, when, found, remedy };
}

function libfabricNeeds(linked: Linked | null): Need[] {
  const root = process.env['LIBFABRIC_ROOT'];
  const prefix = resolve(process.execPath, '../..');
  return [
    need('g++', 'build', onPath(process.env['CXX'] ?? 'g++'), 'apt-get install g++, or set CXX'),
    need(
      'node_api.h',
      'build',
      firstOf([`${prefix}/include/node/node_api.h`, '/usr/include/node/node_api.h']),
      'use a Node that ships its headers, or set NODE_INCLUDE',
    ),
    need(
      'rdma/fabric.h',
      'build',
      firstOf([
        ...(root === undefined ? [] : [`${root}/include/rdma/fabric.h`]),
        ...INCLUDES.map((at) => `${at}/rdma/fabric.h`),
      ]),
      'apt-get install libfabric-dev, or set LIBFABRIC_ROOT',
    ),
    need(
      'libfabric.so.1',
      'run',
      loaded(linked, 'libfabric.so.1', root === undefined ? [] : [`${root}/lib`]),
      'apt-get install libfabric1, or LD_LIBRARY_PATH',
    ),
    ...['libibverbs.so.1', 'librdmacm.so.1'].map((name) =>
      need(name, 'run', loaded(linked, name), "libfabric's own: apt-get install libfabric1"),
    ),
    need('/dev/shm', 'run', firstOf(['/dev/shm']), 'mount a tmpfs there (the shm provider)'),
  ];
}

function moriNeeds(linked: Linked | null): Need[] {
  const root = process.env['MORI_ROOT'];
  const below = (path: string): string[] => (root === undefined || root === '' ? [] : [join(root, path)]);
  const headers = process.env['MORI_INCLUDE'];
  const rocm = process.env['ROCM_PATH'] ?? '/opt/rocm';
  const libraryOfMori = firstOf([...below('lib/libmori_io.so'), ...below('libmori_io.so')]);
  return [
    need(
      'mori/io/io.hpp',
      'build',
      firstOf(headers === undefined ? below('include/mori/io/io.hpp') : [join(headers, 'mori/io/io.hpp')]),
      'set MORI_ROOT to where MoRI is installed, MORI_INCLUDE when its headers are elsewhere',
    ),
    need('libmori_io.so', 'build', libraryOfMori, 'set MORI_ROOT to where it is, or where lib/ with it is'),
    need(
      'libmori_io.so',
      'run',
      loaded(linked, 'libmori_io.so', below('lib').concat(below(''))),
      'the same; the addon remembers the place it was built with',
    ),
    need(
      'hip_runtime_api.h',
      'build',
      firstOf([`${rocm}/include`, ...INCLUDES].map((at) => join(at, 'hip/hip_runtime_api.h'))),
      'install ROCm, or set ROCM_PATH',
    ),
    ...['infiniband/verbs.h', 'msgpack.hpp', 'spdlog/spdlog.h'].map((header) =>
      need(
        header,
        'build',
        firstOf(INCLUDES.map((at) => join(at, header))),
        'apt-get install libibverbs-dev libmsgpack-cxx-dev libspdlog-dev, or a clone of MoRI with its submodules',
      ),
    ),
    need(
      'libamdhip64.so',
      'run',
      loaded(linked, 'libamdhip64.so', [`${rocm}/lib`]),
      'install ROCm, or set ROCM_PATH',
    ),
    need(
      'librocm_smi64.so',
      'run',
      library('librocm_smi64.so', [`${rocm}/lib`]),
      'install ROCm: without it, or without a GPU, MoRI-IO ends the process when its RDMA backend is made',
    ),
    need(
      'libibverbs.so',
      'run',
      library('libibverbs.so') ?? library('libibverbs.so.1'),
      "apt-get install libibverbs1 and the NIC vendor's provider",
    ),
    need('/dev/kfd', 'run', firstOf(['/dev/kfd']), 'an AMD GPU with its driver, passed into the container'),
    need(
      '/dev/infiniband',
      'run',
      firstOf(['/dev/infiniband']),
      'an RDMA NIC with its driver, passed into the container',
    ),
  ];
}

const INCLUDES = ['/usr/include', '/usr/local/include'];
const LIBRARIES = [
  '/usr/lib/x86_64-linux-gnu',
  '/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib64',
  '/usr/lib',
  '/usr/local/lib',
];

function firstOf(paths: readonly string[]): string | null {
  return paths.find((path) => existsSync(path)) ?? null;
}

function onPath(name: string): string | null {
  if (name.includes('/')) return firstOf([name]);
  return firstOf((process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, name)));
}

/** Where a library that is opened by its name would be found. */
function library(name: string, folders: readonly string[] = []): string | null {
  const first = (process.env['LD_LIBRARY_PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return firstOf([...first, ...folders, ...LIBRARIES].map((folder) => join(folder, name)));
}

/** What the linker takes for it when it loads the addon; a name without a number stands for any number. */
function loaded(linked: Linked | null, name: string, folders: readonly string[] = []): string | null {
  if (linked === null) return library(name, folders);
  const [, path] = [...linked.paths].find(([each]) => each === name || each.startsWith(`${name}.`)) ?? [];
  return path ?? library(name, folders);
}
