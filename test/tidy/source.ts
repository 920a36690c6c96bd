import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A small reader of TypeScript source for the tidy tests: tells code from comments, strings and patterns. */

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

export interface Literal {
  /** Offset of the opening quote. */
  readonly at: number;
  readonly value: string;
  /** False for a template with an expression inside: its value is not known. */
  readonly whole: boolean;
}

export interface Scanned {
  /** As long as the source, line breaks kept: comments, and what strings and patterns hold, are blanks. */
  readonly code: string;
  /** As long as the source: everything but comments is blank. */
  readonly comments: string;
  readonly literals: readonly Literal[];
}

/** A slash after one of these words begins a pattern; after any other word, `)` or `]` it divides. */
const BEFORE_PATTERN =
  /(?:^|[^\w$.])(?:return|typeof|case|in|of|do|else|void|delete|throw|new|yield|await|instanceof)$/;

export function scan(source: string): Scanned {
  const code = [...blank(source)];
  const comments = [...blank(source)];
  const literals: Literal[] = [];
  /** Brace depth at which each open template goes on. */
  const templates: { depth: number; literal: { at: number; value: string; whole: boolean } }[] = [];
  let depth = 0;
  let at = 0;

  const keep = (into: string[], from: number, to: number): void => {
    for (let i = from; i < to; i++) into[i] = source[i]!;
  };
  const isPattern = (): boolean => {
    let last = at - 1;
    while (last >= 0 && /\s/.test(code[last]!)) last--;
    if (last < 0) return true;
    const before = code.slice(Math.max(0, last - 19), last + 1).join('');
    return BEFORE_PATTERN.test(before) || !/[\w$)\]}"'`]$/.test(before);
  };
  const skipPattern = (): void => {
    let inClass = false;
    for (at++; at < source.length && source[at] !== '\n'; at++) {
      const char = source[at]!;
      if (char === '\\') at++;
      else if (char === '[') inClass = true;
      else if (char === ']') inClass = false;
      else if (char === '/' && !inClass) break;
    }
    at++;
  };
  const readQuoted = (quote: string): void => {
    const from = at;
    let value = '';
    for (at++; at < source.length && source[at] !== quote && source[at] !== '\n'; at++) {
      if (source[at] === '\\') at++;
      value += source[at] ?? '';
    }
    at++;
    code[from] = quote;
    if (at <= source.length) code[at - 1] = source[at - 1] === '\n' ? '\n' : quote;
    literals.push({ at: from, value, whole: true });
  };
  const goOnTemplate = (literal: { at: number; value: string; whole: boolean }): void => {
    for (; at < source.length; at++) {
      const char = source[at]!;
      if (char === '\\') at++;
      else if (char === '`') {
        code[at++] = '`';
        literals.push(literal);
        return;
      } else if (char === '$' && source[at + 1] === '{') {
        literal.whole = false;
        templates.push({ depth, literal });
        keep(code, at + 1, at + 2);
        at += 2;
        depth++;
        return;
      } else literal.value += char;
    }
  };

  while (at < source.length) {
    const char = source[at]!;
    const next = source[at + 1];
    if (char === '/' && next === '/') {
      const from = at;
      while (at < source.length && source[at] !== '\n') at++;
      keep(comments, from, at);
    } else if (char === '/' && next === '*') {
      const end = source.indexOf('*/', at + 2);
      const to = end < 0 ? source.length : end + 2;
      keep(comments, at, to);
      at = to;
    } else if (char === '/' && isPattern()) {
      skipPattern();
    } else if (char === "'" || char === '"') {
      readQuoted(char);
    } else if (char === '`') {
      const from = at++;
      code[from] = '`';
      goOnTemplate({ at: from, value: '', whole: true });
    } else if (char === '}' && templates.length > 0 && templates.at(-1)!.depth === depth - 1) {
      keep(code, at, at + 1);
      at++;
      depth--;
      goOnTemplate(templates.pop()!.literal);
    } else {
      if (char === '{') depth++;
      if (char === '}') depth--;
      keep(code, at, at + 1);
      at++;
    }
  }
  return { code: code.join(''), comments: comments.join(''), literals };
}

function blank(source: string): string {
  return source.replace(/[^\n]/g, ' ');
}

/** Stands for an import whose target is computed and cannot be checked. */
export const COMPUTED = '(computed)';

const BEFORE_TARGET =
  /(?:(?<![\w$.])from|(?<![\w$.])import|(?<![\w$.])import\s*\(|(?<![\w$])require\s*\(|(?<![\w$])new\s+URL\s*\()$/;

/**
 * What a file names as a module: static, side-effect, type, re-exporting and dynamic imports, `require`, and
 * `new URL('./x.ts', import.meta.url)`, by which workers are started.
 */
export function importsOf(source: string): string[] {
  const { code, literals } = scan(source);
  const targets: string[] = [];
  for (const { at, value, whole } of literals) {
    const before = code.slice(0, at).trimEnd();
    if (!BEFORE_TARGET.test(before.slice(-40))) continue;
    const isUrl = /URL\s*\($/.test(before);
    if (isUrl && !/^\s*,\s*import\.meta\.url/.test(code.slice(at + 1).replace(/^[\s]*['"`]/, ''))) continue;
    if (isUrl && !/\.[cm]?[jt]s$/.test(value)) continue;
    targets.push(whole ? value : COMPUTED);
  }
  for (const call of code.matchAll(/(?<![\w$.])(?:import|require)\s*\(\s*(?=[^\s'"`)])/g)) {
    if (call[0] !== '') targets.push(COMPUTED);
  }
  return targets;
}

/** All files below a folder of the project with one of the endings, as sorted paths from the root with `/`. */
export function filesBelow(folder: string, ...endings: string[]): string[] {
  const found: string[] = [];
  const visit = (path: string): void => {
    for (const entry of readdirSync(path, { withFileTypes: true })) {
      const inner = join(path, entry.name);
      const isOurs = !['node_modules', 'dist', 'build', 'coverage', '.git'].includes(entry.name);
      if (entry.isDirectory() && isOurs) visit(inner);
      else if (entry.isFile() && endings.some((ending) => entry.name.endsWith(ending))) found.push(inner);
    }
  };
  if (existsSync(join(ROOT, folder))) visit(join(ROOT, folder));
  return found.map(fromRoot).sort();
}

function fromRoot(path: string): string {
  return relative(ROOT, path).split(sep).join('/');
}

export function textOf(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/** The file of the project that a relative import names, as a path from the root. */
export function targetOf(file: string, specifier: string): string {
  return fromRoot(resolve(ROOT, dirname(file), specifier));
}

/** Line number of an offset, from 1. */
export function lineAt(source: string, at: number): number {
  return source.slice(0, at).split('\n').length;
}
