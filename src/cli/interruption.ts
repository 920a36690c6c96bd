import { setImmediate } from 'node:timers/promises';
import { EXIT } from './output.ts';

/**
 * Ctrl-C and a polite kill. A long command runs in slices; between two of them Node sees the signal, the command stops and
 * tells what it has. The first signal is the last one that is caught: a second one ends the program at once.
 */

const CODES = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated } as const;

export type Signal = keyof typeof CODES;

export interface Interruption {
  /** Null until a signal came. */
  readonly signal: Signal | null;
  /** From here on a signal ends the program, as while a reader of its output is slow. */
  ignore(): void;
}

export function watchSignals(): Interruption {
  let signal: Signal | null = null;
  const names = Object.keys(CODES) as Signal[];
  const ignore = (): void => {
    for (const name of names) process.off(name, note);
  };
  const note = (name: Signal): void => {
    signal = name;
    ignore();
  };
  for (const name of names) process.on(name, note);
  return {
    get signal() {
      return signal;
    },
    ignore,
  };
}

/** Asks `advance` again and again until it says that nothing is left, or a signal came. */
export async function inSlices(interruption: Interruption, advance: () => boolean): Promise<void> {
  while (interruption.signal === null && advance()) await setImmediate();
}

/** The exit code of a command that would have ended with `code`. */
export function exitUnless({ signal }: Interruption, code: number): number {
  return signal === null ? code : CODES[signal];
}

/** One line for a page; none when nothing interrupted it. */
export function showInterruption({ signal }: Interruption): string[] {
  return signal === null ? [] : [`interrupted by ${signal}: this is what was found so far`];
}
