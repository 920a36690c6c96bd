import { writeSync } from 'node:fs';

/** Exit codes, as in `moriarty --help`. */
export const EXIT = { fine: 0, violation: 1, usage: 2, harness: 3 } as const;

/** Writes to standard output; a reader that went away (`| head`) ends the program quietly, as it does for any tool. */
export function print(text: string): void {
  writeAll(1, `${text}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

export function complain(text: string): void {
  writeAll(2, `${text}\n`);
}

/** One line that is overwritten, on a terminal only. */
export function showProgress(text: string): void {
  if (process.stderr.isTTY) writeAll(2, `\r${text}\u001b[K`);
}

export function endProgress(): void {
  if (process.stderr.isTTY) writeAll(2, '\r\u001b[K');
}

function writeAll(descriptor: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let written = 0; written < bytes.length; ) {
    try {
      written += writeSync(descriptor, bytes, written);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EPIPE') process.exit(EXIT.fine);
      if (code !== 'EAGAIN') throw error;
    }
  }
}

export function thousands(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
