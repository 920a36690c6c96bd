import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

describe('the example of docs/ENGINE.md', () => {
  const page = readFileSync(`${ROOT}docs/ENGINE.md`, 'utf8');
  const [code, output] = [...page.matchAll(/^```\w*\n([\s\S]*?)^```$/gm)].map((block) => block[1]!);

  test('is the file under examples', () => {
    expect(code).toBe(readFileSync(`${ROOT}examples/engine.mjs`, 'utf8'));
  });

  test('prints what the page says, through the package as it is published', () => {
    const printed = execFileSync(process.execPath, ['examples/engine.mjs'], {
      cwd: ROOT,
      encoding: 'utf8',
      timeout: 60_000,
    });
    expect(printed).toBe(output);
  });
});
