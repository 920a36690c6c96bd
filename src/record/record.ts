import type { EffectRow } from './effects.ts';
import type { EventRow } from './events.ts';

/** The record of a run as data: one row for each step, kept only when somebody is going to read it. */
export interface StepRow {
  readonly step: number;
  readonly atMicros: number;
  /** Whom it happened to. */
  readonly actor: number;
  readonly event: EventRow;
  /** What its machine asked for, in order. */
  readonly effects: readonly EffectRow[];
  /** Effects that are not among them: see EFFECTS_KEPT. */
  readonly effectsLeftOut: number;
  /** The step that caused this one; -1 for the start of the run. */
  readonly cause: number;
  /** Microseconds by which the adversary held it back. */
  readonly heldMicros: number;
  /** A fault, not the system's own doing. */
  readonly fault: boolean;
  /** What it is about; -1 for nothing. */
  readonly transfer: number;
  readonly request: number;
}

export interface RunRecord {
  /** How people see the actors, by their number. */
  readonly actorNames: readonly string[];
  /** Words for the connector's own messages, by their names, with fields in braces; a message without any is told by its fields. */
  readonly messageWords: { readonly [name: string]: string };
  readonly steps: readonly StepRow[];
}

/**
 * Effects that are kept of one step, and of a whole run: a machine that asks for effects without end must not fill the memory.
 * A run has at most some ten thousand steps and a step a handful of effects.
 */
export const EFFECTS_KEPT = { ofStep: 500, ofRun: 400_000 } as const;
