import type { z } from 'zod';
import type { Died, Raised } from './answers.ts';

/** Errors of the guest's own code, as the border between world and connector wants them. */

/** Something that the guest's code raised, with its own stack: the border of guests tells it as the guest's doing. */
export class GuestError extends Error {
  constructor({ text, stack = [] }: Raised) {
    super(text);
    this.stack = stackOf(text, stack);
  }
}

/** A thread of the guest that an exception has ended. */
export class GuestThreadDeath extends Error {
  readonly thread: string;
  constructor({ thread, text, stack }: Died) {
    super(text);
    this.thread = thread;
    this.stack = stackOf(text, stack);
  }
}

function stackOf(text: string, frames: readonly string[]): string {
  return [text, ...frames.map((frame) => `    at ${frame}`)].join('\n');
}

/** What a hook returned. @throws GuestError which names the hook when it is of another form */
export function readValue<T>(form: z.ZodType<T>, value: unknown, hook: string): T {
  const read = form.safeParse(value);
  if (read.success) return read.data;
  const { path, message } = read.error.issues[0]!;
  throw new GuestError({
    kind: 'raised',
    text: `${hook} returned what cannot be used: ${path.join('.')}: ${message}`,
  });
}
