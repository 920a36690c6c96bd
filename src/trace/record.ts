/** The record of a run as data: one row for each step, kept only when somebody is going to read it. */
export interface StepRecord {
  readonly step: number;
  readonly atMicros: number;
  readonly actor: number;
  /** What happened, in words. */
  readonly what: string;
  /** What it led to, in words; what is telling comes first. */
  readonly effects: string[];
  /** The step that caused this one; -1 for the start of the run. */
  readonly cause: number;
  /** Microseconds by which the adversary held it back. */
  readonly heldMicros: number;
  /** A fault, not the system's own doing. */
  readonly fault: boolean;
  /** The actor itself said something about it: a moment that the code's author thought worth a line. */
  telling: boolean;
  /** What it is about, to find the steps that matter to a failure; -1 for nothing. */
  readonly transfer: number;
  readonly request: number;
}

export interface RunRecord {
  /** How people see the actors, by their number. */
  readonly actorNames: readonly string[];
  readonly steps: readonly StepRecord[];
}
