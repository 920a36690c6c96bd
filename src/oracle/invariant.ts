import type { ActorId, EngineId, RequestId } from '../base/topology.ts';
import type { Note, PostedBatch, Wait } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import type { Breach } from './breach.ts';
import type { Court } from './court.ts';

export type NoteOf<K extends Note['kind']> = Extract<Note, { readonly kind: K }>;
export type ReportMessage = Extract<Message, { readonly kind: 'report' }>;

/** What is left when nothing more can happen. Asked for one by one: a connector may break when it is asked. */
export interface RunEnd {
  waits(): readonly Wait[];
  /** Of engines that are up. */
  pools(): readonly PoolEnd[];
  /** Of every scheduler and rank that is up: things that its connector still remembers. */
  tables(tell: (actor: ActorId, left: number) => void): void;
  /** Of ranks that are up: send-queue slots that are taken, and batches without an end. */
  queues(): readonly { readonly actor: ActorId; readonly slots: number; readonly batches: number }[];
}

export interface PoolEnd {
  readonly engine: EngineId;
  readonly scheduler: ActorId;
  readonly free: number;
  readonly total: number;
  /** Requests that are still in its table. */
  readonly requests: readonly RequestId[];
}

/** A run that has taken all the steps, or all the time, that one may take. */
export interface EndlessRun {
  readonly why: 'steps' | 'time';
  readonly steps: number;
  readonly atMicros: number;
  /** The hook that has answered `again` most often in a row; null when none has. */
  readonly again: {
    readonly actor: ActorId;
    readonly hook: string;
    readonly guest: string;
    readonly since: number;
    readonly turns: number;
  } | null;
  /** What most of its events are. */
  readonly busiest: { readonly actor: ActorId; readonly event: string; readonly count: number };
}

/**
 * What a judge may hear, each at the moment at which it happens. Unless it says otherwise the court's books (who holds which
 * block, who was given which transfer, which requests have ended) are as they were before it.
 */
export interface Hearings {
  allocate(court: Court, actor: ActorId, note: NoteOf<'allocate'>): void;
  /** The books say already that the blocks were given back. */
  free(court: Court, actor: ActorId, note: NoteOf<'free'>): void;
  /** The books know the assignment already. */
  assign(court: Court, actor: ActorId, note: NoteOf<'assign'>): void;
  outcome(court: Court, actor: ActorId, note: NoteOf<'outcome'>): void;
  misread(court: Court, actor: ActorId, note: NoteOf<'misread'>): void;
  loaded(court: Court, actor: ActorId, note: NoteOf<'loaded'>): void;
  died(court: Court, actor: ActorId, note: NoteOf<'died'>): void;
  spin(court: Court, actor: ActorId, note: NoteOf<'spin'>): void;
  sent(court: Court, from: ActorId, to: ActorId, message: Message): void;
  /** A rank tells its scheduler the ends of transfers. */
  report(court: Court, actor: ActorId, report: ReportMessage): void;
  /** A batch goes to a peer, for a transfer and a request, whatever it touches there. */
  addressed(court: Court, from: ActorId, batch: PostedBatch): void;
  /** `canLand` is false when nothing of it can touch memory, as after a fence. */
  posted(court: Court, from: ActorId, batch: PostedBatch, canLand: boolean): void;
  /** `runs` of it land, and a block has changed hands since it was posted. */
  landed(court: Court, from: ActorId, batch: PostedBatch, runs: readonly number[]): void;
  ended(court: Court, end: RunEnd): void;
  endless(court: Court, run: EndlessRun): void;
}

/** A promise of the system under attack: all that is known of it. The registry lists them. */
export interface Invariant {
  readonly id: string;
  readonly name: string;
  readonly sentence: string;
  /** Parts of the system at which it can break, as templates: {owner} is whose part, {part} which of several. */
  readonly sites: { readonly [site: string]: string };
  readonly breaches: { readonly [name: string]: Breach };
  readonly hears: Partial<Hearings>;
  /** What the world raises itself, for the page of invariants; '' for nothing. */
  readonly raisedBy: string;
  /** Planted bugs and known faults that it finds, for the page of invariants. */
  readonly finds: string;
}

type Rows<Site extends string> = {
  readonly [name: string]: { readonly site: Site; readonly says: string };
};

/** The breaches of an invariant by their names, each with the invariant's id. */
export function breachesOf<const Id extends string, Site extends string, const R extends Rows<Site>>(
  invariant: Id,
  _sites: { readonly [S in Site]: string },
  rows: R,
): {
  readonly [N in keyof R & string]: Breach<R[N]['says']> & {
    readonly invariant: Id;
    readonly site: R[N]['site'];
  };
} {
  const breaches = Object.entries(rows).map(([name, row]) => [name, { invariant, name, ...row }]);
  return Object.fromEntries(breaches) as never;
}
