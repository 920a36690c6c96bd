import { spawnSync } from 'node:child_process';

/** What the dynamic linker of this machine takes for a file and its libraries, in this process's environment. */
export interface Linked {
  /** Name such as `libibverbs.so.1`, and the path it was found at; null when there is none. */
  readonly paths: ReadonlyMap<string, string | null>;
  readonly lacking: readonly Lacking[];
}

/** A symbol that one library asks for and none has. */
export interface Lacking {
  /** The library that should have it, as far as the symbol's version names one. */
  readonly library: string | null;
  /** As the linker says it: name, and version when it has one. */
  readonly symbol: string;
  /** Path of the library that asks. */
  readonly neededBy: string;
}

const FOUND = /^\s*(\S+) => (not found|\/.+?)(?: \(0x[0-9a-f]+\))?$/;
const UNDEFINED = /^undefined symbol: (\S+?)(?:, version (\S+))?\s+\((.+)\)$/;
const LINKER_MILLIS_MAX = 10_000;

/** Asks `ldd -r`; null where there is none, or it cannot read the file. */
export function linkedOf(file: string): Linked | null {
  const options = { encoding: 'utf8', timeout: LINKER_MILLIS_MAX, maxBuffer: 1 << 24 } as const;
  const { stdout, error } = spawnSync('ldd', ['-r', file], options);
  return error === undefined && stdout !== '' ? readLinked(stdout, file) : null;
}

/** Of the text of `ldd -r`. What the file itself leaves open is the program's that loads it. */
export function readLinked(text: string, file: string): Linked {
  const lines = text.split('\n');
  const paths = new Map<string, string | null>();
  for (const line of lines) {
    const [, name, path] = FOUND.exec(line) ?? [];
    if (name !== undefined) paths.set(name, path === 'not found' ? null : path!);
  }
  const lacking = lines.flatMap((line) => {
    const [, name, version, neededBy] = UNDEFINED.exec(line) ?? [];
    if (name === undefined || neededBy === file) return [];
    const symbol = version === undefined ? name : `${name}, version ${version}`;
    return [{ library: libraryOf(version, [...paths.keys()]), symbol, neededBy: neededBy! }];
  });
  return { paths, lacking };
}

/** Versions are named after their library: IBVERBS_1.1 is of libibverbs.so.1. */
function libraryOf(version: string | undefined, names: readonly string[]): string | null {
  if (version === undefined) return null;
  const stem = version.replace(/_.*/, '').toLowerCase();
  return names.find((name) => name.startsWith(`lib${stem}.`)) ?? null;
}

/** What is wrong, in one sentence for each library; empty when nothing is. */
export function complaints({ paths, lacking }: Linked): string[] {
  const missing = [...paths].flatMap(([name, path]) => (path === null ? [`${name} is not found`] : []));
  const libraries = new Set(lacking.map(({ library }) => library));
  const poor = [...libraries].map((library) => {
    const symbols = lacking.filter((each) => each.library === library);
    const [first] = symbols;
    const more = symbols.length > 1 ? ` and ${symbols.length - 1} more` : '';
    const who = library === null ? 'no library has' : `${library} is ${paths.get(library)}, which lacks`;
    return `${who} ${first!.symbol}${more}, needed by ${first!.neededBy}`;
  });
  return [...missing, ...poor];
}
