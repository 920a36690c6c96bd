import type { ActorId, EngineId, RequestId } from '../base/topology.ts';
import type { Note, PostedBatch } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import { type Court, engineOf, type JudgeConfig, openCourt, reach } from './court.ts';
import type { EndlessRun, NoteOf, RunEnd } from './invariant.ts';
import { allocate, forgetBlocks, grant, share } from './ledger.ts';
import { HEARING } from './registry.ts';

/**
 * The judges of a run. Told of every fact as it happens, this keeps the court's books and lets the invariants that hear of it
 * look at it; they notice the step at which a promise breaks. None looks into a connector: what holds here holds for any
 * connector behind the plug.
 */
export class Judge {
  readonly #court: Court;

  constructor(config: JudgeConfig) {
    this.#court = openCourt(config);
  }

  get goals(): Map<string, number> {
    return this.#court.goals;
  }

  /** Requests without an outcome yet. */
  get unfinished(): ReadonlySet<RequestId> {
    return this.#court.unfinished;
  }

  get outcomes(): ReadonlyMap<RequestId, string> {
    return this.#court.outcomes;
  }

  note(actor: ActorId, note: Note): void {
    const court = this.#court;
    switch (note.kind) {
      case 'goal':
        return reach(court, note.name);
      case 'allocate':
        for (const hear of HEARING.allocate) hear(court, actor, note);
        return allocate(ledgerOf(court, actor), note.request, note.blocks);
      case 'share':
        return share(ledgerOf(court, actor), note.request, note.blocks);
      case 'external':
        return grant(ledgerOf(court, actor), note.request, { from: note.tokenFrom, to: note.tokenTo });
      case 'free':
        return this.#free(actor, note);
      case 'assign':
        court.assignments.set(note.transfer, note);
        for (const hear of HEARING.assign) hear(court, actor, note);
        return;
      case 'outcome':
        return this.#end(actor, note);
      case 'misread':
        for (const hear of HEARING.misread) hear(court, actor, note);
        return;
      case 'loaded':
        for (const hear of HEARING.loaded) hear(court, actor, note);
        return;
      case 'died':
        for (const hear of HEARING.died) hear(court, actor, note);
        return;
      case 'spin':
        for (const hear of HEARING.spin) hear(court, actor, note);
        return;
      case 'refused':
        return reach(court, 'message-refused');
      case 'firstToken':
      case 'prefixHit':
      case 'log':
        return;
    }
  }

  #free(actor: ActorId, note: NoteOf<'free'>): void {
    const court = this.#court;
    const ledger = ledgerOf(court, actor);
    for (const block of note.blocks) ledger.holders[block]!--;
    forgetBlocks(ledger, note.request);
    for (const hear of HEARING.free) hear(court, actor, note);
  }

  #end(actor: ActorId, note: NoteOf<'outcome'>): void {
    const court = this.#court;
    const { outcomes, unfinished, dead } = court;
    for (const hear of HEARING.outcome) hear(court, actor, note);
    if (outcomes.has(note.request)) return;
    outcomes.set(note.request, note.outcome);
    unfinished.delete(note.request);
    if (note.outcome === 'aborted') reach(court, 'request-aborted');
    if (note.outcome === 'completed') reach(court, 'request-completed');
    if (note.outcome === 'failed' && dead.size > 0) reach(court, 'request-failed-by-crash');
  }

  sent(from: ActorId, to: ActorId, message: Message): void {
    const court = this.#court;
    if (message.kind === 'report') for (const hear of HEARING.report) hear(court, from, message);
    for (const hear of HEARING.sent) hear(court, from, to, message);
  }

  /**
   * `canLand` is false when nothing of it can touch memory, as after a fence.
   * @returns the state of the books under which it passed
   */
  posted(from: ActorId, batch: PostedBatch, canLand: boolean): number {
    const court = this.#court;
    for (const hear of HEARING.addressed) hear(court, from, batch);
    for (const hear of HEARING.posted) hear(court, from, batch, canLand);
    return canLand ? stateOf(court, from, batch) : NEVER_PASSED;
  }

  /**
   * `runs` of it land: triples of local offset, remote offset, bytes. `passed` is what `posted` gave: what was right then is
   * right as long as no block has changed hands at either side.
   */
  landed(from: ActorId, batch: PostedBatch, runs: readonly number[], passed: number): void {
    const court = this.#court;
    if (passed === stateOf(court, from, batch)) return;
    for (const hear of HEARING.landed) hear(court, from, batch, runs);
  }

  engineDied(engine: EngineId): void {
    this.#court.calm = false;
    this.#court.dead.add(engine);
    reach(this.#court, 'rank-crashed');
  }

  /** Something went wrong that a transfer may fail of: a fault, or a delay beyond the protocol's patience. */
  disturbed(): void {
    this.#court.calm = false;
  }

  /** Nothing is left to happen. */
  ended(end: RunEnd): void {
    for (const hear of HEARING.ended) hear(this.#court, end);
  }

  /** The run has no end within its steps or its time. */
  endless(run: EndlessRun): void {
    for (const hear of HEARING.endless) hear(this.#court, run);
  }
}

/** No state of the books. */
const NEVER_PASSED = -1;

/** Grows with every change of the ledger at either side. */
function stateOf(court: Court, from: ActorId, { peer }: PostedBatch): number {
  return ledgerOf(court, from).changes + ledgerOf(court, peer).changes;
}

function ledgerOf(court: Court, actor: ActorId): Court['ledgers'][number] {
  return court.ledgers[engineOf(court, actor)]!;
}
