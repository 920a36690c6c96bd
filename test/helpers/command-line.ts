import { vi } from 'vitest';

/** The command line within this process: for tests of what a command says, not of how a process begins and ends. */

const said = { out: '', err: '' };

vi.doMock('../../src/cli/output.ts', async (original) => {
  const write = (text: string): void => {
    said.out += text;
  };
  const complain = (text: string): void => {
    said.err += `${text}\n`;
  };
  return {
    ...(await original<object>()),
    write,
    complain,
    print: (text: string) => write(`${text}\n`),
    printJson: (value: unknown) => write(`${JSON.stringify(value, null, 2)}\n`),
  };
});

const { runProgram } = await import('../../src/cli/program.ts');

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export async function runCommandLine(...args: string[]): Promise<Said> {
  Object.assign(said, { out: '', err: '' });
  const code = await runProgram(args);
  return { code, ...said };
}
