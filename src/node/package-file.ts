import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

let root: string | null = null;

/** The path of a file of this package, from wherever below its package.json the build has put this code. */
export function packageFile(path: string): string {
  root ??= rootAbove(dirname(fileURLToPath(import.meta.url)));
  return join(root, path);
}

function rootAbove(folder: string): string {
  if (existsSync(join(folder, 'package.json')) || dirname(folder) === folder) return folder;
  return rootAbove(dirname(folder));
}
