import { existsSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, relative, resolve } from 'node:path';
import { packageFile } from './package-file.ts';

/** Places of a bundled file as places of the source that it was made of. The maps are read when something has gone wrong. */

const PLACE = /(?:file:\/\/)?(\/[^\s():]+\.js):(\d+):(\d+)/g;

const maps = new Map<string, SourceMap | null>();

/** A text with `src/sim/world.ts:12:3` in place of each `/.../dist/chunks/core.js:3456:7` that has a map beside it. */
export function sourcePlaces(text: string): string {
  return text.replaceAll(PLACE, (place, file: string, line: string, column: string) => {
    const path = decodeURI(file);
    const found = mapOf(path)?.findEntry(Number(line) - 1, Number(column) - 1);
    if (found === undefined || !('originalSource' in found)) return place;
    const source = relative(packageFile('.'), resolve(dirname(path), found.originalSource));
    return `${source}:${found.originalLine + 1}:${found.originalColumn + 1}`;
  });
}

function mapOf(path: string): SourceMap | null {
  let map = maps.get(path);
  if (map === undefined) {
    map = readMap(`${path}.map`);
    maps.set(path, map);
  }
  return map;
}

/** A map that is none is no reason to lose what went wrong. */
function readMap(path: string): SourceMap | null {
  try {
    return existsSync(path) ? new SourceMap(JSON.parse(readFileSync(path, 'utf8'))) : null;
  } catch {
    return null;
  }
}
