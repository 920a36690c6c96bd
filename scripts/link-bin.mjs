// Makes `npx moriarty` work inside a clone: npm links the bins of dependencies, not those of the package itself.
import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const main = `${root}dist/cli/main.js`;
const link = `${root}node_modules/.bin/moriarty`;
if (existsSync(main)) {
  chmodSync(main, 0o755);
  mkdirSync(`${root}node_modules/.bin`, { recursive: true });
  rmSync(link, { force: true });
  symlinkSync('../../dist/cli/main.js', link);
}
