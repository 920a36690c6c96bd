import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Pipes whose ends block: what Node itself gives to a child cannot be read without its event loop. */

export interface Pipe {
  readonly reader: number;
  readonly writer: number;
}

/** Two pipes without a name, and an empty file for what a child complains about. @throws Error of mkfifo, of the system */
export function openPipes(): { readonly down: Pipe; readonly up: Pipe; readonly complaints: number } {
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-guest-'));
  try {
    const [down, up] = [join(folder, 'down'), join(folder, 'up')] as const;
    execFileSync('mkfifo', [down, up], { stdio: ['ignore', 'ignore', 'pipe'] });
    const complaints = openSync(join(folder, 'stderr'), 'w+');
    return { down: openPipe(down), up: openPipe(up), complaints };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** An end that is opened alone waits for the other one; whoever is both never waits. */
function openPipe(path: string): Pipe {
  const both = openSync(path, constants.O_RDWR);
  const reader = openSync(path, constants.O_RDONLY);
  const writer = openSync(path, constants.O_WRONLY);
  closeSync(both);
  return { reader, writer };
}
