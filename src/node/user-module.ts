import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, extname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { UsageError } from '../base/failure.ts';
import { describeThrown, stackHead } from '../base/thrown.ts';

/** A module that somebody else wrote, loaded while the program runs: JavaScript, or TypeScript where somebody can read it. */

/** What is known of a module without its exports: a plain value, to be written down or sent to another thread. */
export interface ModuleRef {
  /** As it was given: absolute, or from the working folder. */
  readonly path: string;
  /** The first 64 bits of the SHA-256 of the file, as 16 hex digits. What the file imports does not count. */
  readonly hash: string;
}

export interface LoadedModule {
  readonly ref: ModuleRef;
  readonly exports: Readonly<Record<string, unknown>>;
}

const SCRIPTS: readonly string[] = ['.js', '.mjs', '.cjs'];
const TYPED: readonly string[] = ['.ts', '.mts', '.cts'];
const MODULE_BYTES_MAX = 16 << 20;
/** For a module that waits while it is loaded. */
const LOAD_MILLIS_MAX = 30_000;

/** Whether a word is meant as the path of a module, not as a name. */
export function looksLikeModule(word: string): boolean {
  return /[/\\]/.test(word) || SCRIPTS.includes(extname(word)) || TYPED.includes(extname(word));
}

/** The file as it is now. @throws UsageError CONNECTOR-FILE */
export function moduleRef(path: string): ModuleRef {
  if (!SCRIPTS.includes(extname(path)) && !TYPED.includes(extname(path)))
    throw new UsageError(
      'CONNECTOR-FILE',
      `${path}: a module's name ends in ${[...SCRIPTS, ...TYPED].join(', ')}`,
    );
  return { path, hash: createHash('sha256').update(bytesOf(path)).digest('hex').slice(0, 16) };
}

function bytesOf(path: string): Buffer {
  try {
    const stats = statSync(path);
    const odd = stats.isFile()
      ? stats.size > MODULE_BYTES_MAX
        ? `has ${stats.size} bytes`
        : ''
      : 'is no file';
    if (odd !== '')
      throw new UsageError(
        'CONNECTOR-FILE',
        `${path} ${odd}; a module of at most ${MODULE_BYTES_MAX} bytes is read`,
      );
    return readFileSync(path);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError('CONNECTOR-FILE', `${path}: cannot be read: ${code ?? describeThrown(error)}`);
  }
}

/**
 * Runs the module once in this thread.
 *
 * @throws UsageError CONNECTOR-FILE when it cannot be read, CONNECTOR-TYPESCRIPT when nobody here reads TypeScript,
 *   CONNECTOR-SYNTAX and CONNECTOR-LOAD with file and line when it is no JavaScript or throws while it is loaded.
 */
export async function loadModule(path: string): Promise<LoadedModule> {
  const ref = moduleRef(path);
  const url = pathToFileURL(resolve(path)).href;
  try {
    return { ref, exports: await inTime(path, importOf(path, url)) };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw failureOf(path, error);
  }
}

type Exports = Readonly<Record<string, unknown>>;

/** A module that waits for what never comes would end the program without a word. */
async function inTime(path: string, loading: Promise<Exports>): Promise<Exports> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const failure = new UsageError(
      'CONNECTOR-LOAD',
      `${path} was not loaded after ${LOAD_MILLIS_MAX / 1000} s: it waits for something at its top level`,
    );
    timer = setTimeout(() => reject(failure), LOAD_MILLIS_MAX);
  });
  try {
    return await Promise.race([loading, late]);
  } finally {
    clearTimeout(timer);
  }
}

function importOf(path: string, url: string): Promise<Exports> {
  const readsTypes = 'typescript' in process.features && Boolean(process.features.typescript);
  if (SCRIPTS.includes(extname(path)) || readsTypes || isUnderTsx()) return import(url) as Promise<Exports>;
  return importWithTsx(path, url);
}

/** Node was started with tsx: every import goes through it. */
function isUnderTsx(): boolean {
  return process.execArgv.some((argument) => /(^|[/=])tsx([/.]|$)/.test(argument));
}

async function importWithTsx(path: string, url: string): Promise<Exports> {
  let api: string;
  try {
    // What require would take lies beside what import takes, and only the latter can be imported.
    api = createRequire(url)
      .resolve('tsx/esm/api')
      .replace(/\.cjs$/, '.mjs');
  } catch {
    throw new UsageError(
      'CONNECTOR-TYPESCRIPT',
      `${path} is TypeScript, which Node ${process.versions.node} does not read: install tsx beside it (npm install --save-dev tsx), use Node 22.18 or later, or give it as JavaScript`,
    );
  }
  const { tsImport } = (await import(pathToFileURL(api).href)) as {
    readonly tsImport: (specifier: string, parent: string) => Promise<Exports>;
  };
  return tsImport(url, import.meta.url);
}

/** In one line: which file and line, and what is wrong there. */
function failureOf(path: string, error: unknown): UsageError {
  const said = describeThrown(error);
  if (error instanceof SyntaxError)
    return new UsageError('CONNECTOR-SYNTAX', `${placeOfSyntax(path)}: ${said}`);
  // What esbuild says under tsx: a line of its own for each mistake, with its place; it calls a .mts file .ts.
  const mistake = /([^\s:]+):(\d+:\d+): ERROR: ([^\n]*)/.exec(error instanceof Error ? error.message : '');
  if (mistake !== null) {
    const [, file = '', at, what] = mistake;
    const isOwn = basename(file, extname(file)) === basename(path, extname(path));
    return new UsageError('CONNECTOR-SYNTAX', `${isOwn ? path : file}:${at}: ${what}`);
  }
  const frame = stackHead(error, Number.POSITIVE_INFINITY).find((line) => line.includes(basename(path)));
  const at = frame === undefined ? '' : `, ${frame.replace('file://', '')}`;
  return new UsageError('CONNECTOR-LOAD', `${path} threw while it was loaded: ${said}${at}`);
}

/** File and line of a syntax error. An import tells neither; Node's own check of the file writes them in its first line. */
function placeOfSyntax(path: string): string {
  const { stderr } = spawnSync(process.execPath, ['--check', resolve(path)], {
    encoding: 'utf8',
    timeout: LOAD_MILLIS_MAX,
  });
  const line = /:(\d+)\n/.exec(stderr.slice(0, stderr.indexOf('\n') + 1));
  return line === null ? path : `${path}:${line[1]}`;
}
