// Bundles the entries of the package: what package.json names as `dist/X.js` is made of `src/X.ts`. All but the browser's
// share their modules, so that a connector that imports `moriarty` and the program that loads it have one copy of each.
// Packages are bundled too; their licenses are written beside. Source maps hold positions only.
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(ROOT, 'dist');
const KEPT = /^kernels\./;
/** Provided by whoever uses the entry that needs it. */
const PEERS = ['fast-check', 'vitest'];

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** `cli/main` of `./dist/cli/main.js`. */
function entriesOf({ bin, exports }) {
  const files = [...Object.values(bin), ...Object.values(exports).map((entry) => entry.default ?? entry)];
  return files.flatMap((file) => /^(?:\.\/)?dist\/(.+)\.js$/.exec(file)?.[1] ?? []);
}

async function bundle(names, { ssr, ...output }) {
  const { output: chunks } = await build({
    root: ROOT,
    configFile: false,
    logLevel: 'warn',
    publicDir: false,
    ssr: { noExternal: true },
    build: {
      ssr,
      outDir: DIST,
      emptyOutDir: false,
      target: 'node20',
      minify: false,
      sourcemap: true,
      rolldownOptions: {
        input: Object.fromEntries(names.map((name) => [name, join(ROOT, 'src', `${name}.ts`)])),
        external: PEERS,
        preserveEntrySignatures: 'strict',
        output: { format: 'es', sourcemapExcludeSources: true, entryFileNames: '[name].js', ...output },
      },
    },
  });
  return chunks.flatMap((chunk) => Object.keys(chunk.modules ?? {}));
}

/** The licenses of the packages of which a module is in the bundle. */
function licensesOf(modules) {
  const folders = modules.flatMap((id) => /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[0] ?? []);
  return [...new Set(folders)].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    if (file === undefined) throw new Error(`${name} is bundled and has no license file`);
    return `${name} ${version}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
  });
}

if (existsSync(DIST))
  for (const name of readdirSync(DIST)) if (!KEPT.test(name)) rmSync(join(DIST, name), { recursive: true });

const [browser, shared] = [/^browser$/, /^(?!browser$)/].map((test) =>
  entriesOf(manifest).filter((name) => test.test(name)),
);
const modules = await bundle(shared, { ssr: true, chunkFileNames: 'chunks/[name].js' });
modules.push(...(await bundle(browser, { ssr: false })));
writeFileSync(join(DIST, 'LICENSES-OF-PACKAGES.txt'), licensesOf(modules).join('\n\n'));
