/** Our caller, or a file he gave us, is wrong. Carries a stable code; the command line exits with 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  readonly code: string;
  constructor(code: string, detail: string) {
    super(detail);
    this.code = code;
  }
}

/** A belief of ours is false: the harness itself is broken. The command line exits with 3. */
export class BrokenBelief extends Error {
  override readonly name = 'BrokenBelief';
  readonly code: string;
  /** `cause`: the exception that showed it, where one did. */
  constructor(code: string, detail: string, cause?: unknown) {
    super(`${code}: ${detail}`, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}

/** States a belief. `code` names it in docs/INVARIANTS.md; it stays on in production. */
export function believe(holds: boolean, code: string, detail: string): asserts holds {
  if (!holds) throw new BrokenBelief(code, detail);
}
