import { describe, expect, test } from 'vitest';
import { COMMANDS, nameOf } from '../../../src/cli/commands.ts';
import { importsOf, targetOf, textOf } from '../../tidy/source.ts';

/** What is loaded at once, and not only when something asks for it. */
function staticImports(file: string): string[] {
  return importsOf(textOf(file).replaceAll(/\bimport\([^)]*\)/g, '')).filter(
    (specifier) => !new RegExp(`import type [^;]*'${specifier.replaceAll('.', '\\.')}'`).test(textOf(file)),
  );
}

/** The files that a start of the program loads, and the packages that they ask for. */
function loadedBy(entry: string): { files: Set<string>; packages: Set<string> } {
  const [files, packages, queue] = [new Set<string>(), new Set<string>(), [entry]];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (files.has(file)) continue;
    files.add(file);
    for (const specifier of staticImports(file))
      if (specifier.startsWith('.')) queue.push(targetOf(file, specifier));
      else packages.add(specifier);
  }
  return { files, packages };
}

describe('the program at its start', () => {
  test('loads neither a command, nor the simulator, nor the schema library', () => {
    const { files, packages } = loadedBy('src/cli/main.ts');
    expect(files).toContain('src/cli/commands.ts');
    const folders = new Set([...files].map((file) => file.split('/').slice(0, -1).join('/')));
    expect([...folders].sort()).toEqual(['src/base', 'src/cli', 'src/explore', 'src/node']);
    expect([...packages].filter((name) => !name.startsWith('node:'))).toEqual(['commander']);
  });

  test('is a rule that fires: a command does load them', () => {
    const { files, packages } = loadedBy('src/cli/commands/check.ts');
    expect(files).toContain('src/sim/world.ts');
    expect(packages).toContain('zod');
  });
});

describe('each command', () => {
  test.each(COMMANDS.map((row) => [nameOf(row), row] as const))('%s is whole', async (name, row) => {
    const { command } = await row.load();
    expect(command.argument === undefined).toBe(row.form === name);
    expect(command.examples.length).toBeGreaterThan(0);
    for (const { line } of command.examples) expect(line.split(' ')[0]).toBe(name);
    const flags = command.options.map(({ flag }) => flag);
    expect(new Set(flags).size).toBe(flags.length);
  });
});
