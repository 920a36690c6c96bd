import type { EffectRow } from '../record/effects.ts';
import { effectRow } from '../record/effects.ts';
import { EFFECTS_KEPT, type StepRow } from '../record/record.ts';
import type { Effect } from '../wire/machine.ts';
import type { WorldEvent } from './event-queue.ts';
import { eventRow, isFault, subjectOf } from './recorded-events.ts';

interface OpenRow extends StepRow {
  readonly effects: EffectRow[];
  effectsLeftOut: number;
  transfer: number;
  request: number;
}

/** Writes a run down as rows. Only there when somebody is going to read it. */
export class Recorder {
  readonly steps: StepRow[] = [];
  #open: OpenRow | null = null;
  #effects = 0;

  open(taken: WorldEvent, step: number, atMicros: number): void {
    const { actor, cause, heldMicros } = taken;
    const event = eventRow(taken);
    this.#open = {
      step,
      atMicros,
      actor,
      event,
      effects: [],
      effectsLeftOut: 0,
      cause,
      heldMicros,
      fault: isFault(taken),
      ...subjectOf(event),
    };
    this.steps.push(this.#open);
  }

  write(effect: Effect): void {
    const open = this.#open;
    if (open === null) return;
    if (effect.kind === 'post') {
      open.transfer = effect.batch.transfer;
      open.request = effect.batch.request;
    }
    if (open.effects.length >= EFFECTS_KEPT.ofStep || this.#effects >= EFFECTS_KEPT.ofRun) {
      open.effectsLeftOut++;
      return;
    }
    this.#effects++;
    open.effects.push(effectRow(effect));
  }
}
