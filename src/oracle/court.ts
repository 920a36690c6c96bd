import type { ActorId, BlockId, EngineId, RequestId, Topology, TransferId } from '../base/topology.ts';
import type { Note } from '../wire/machine.ts';
import type { Fail } from './breach.ts';
import type { CacheMap } from './cache-map.ts';
import { type EngineLedger, newLedger } from './ledger.ts';

export interface JudgedRequest {
  readonly request: RequestId;
  /** Checksums of the tokens a single node would have generated. */
  readonly reference: readonly number[];
  readonly promptTokens: number;
  /** The client goes away at some time. */
  readonly aborts: boolean;
  /** Every engine has room for it; one that does not fit may be refused. */
  readonly fits: boolean;
}

export interface JudgeConfig {
  readonly topology: Topology;
  readonly blocksPerEngine: readonly number[];
  readonly requests: readonly JudgedRequest[];
  /** How the cache of a rank lies in its region. */
  readonly cacheOf: (actor: ActorId) => CacheMap;
  /** Whether tokens are sums over whole attentions and so can be compared. */
  readonly checksTokens: boolean;
  /** The proxy's policy claims that the DP ranks of an instance take turns; one that does not is free to choose. */
  readonly ranksTakeTurns: boolean;
  /** KV heads of the model, over all TP ranks. */
  readonly heads: number;
  /** Verifies, at the actor's own cache, that the KV a `loaded` note speaks of is there. */
  readonly isLoaded: (actor: ActorId, note: Extract<Note, { kind: 'loaded' }>) => boolean;
  /** An operation that can still touch one of these blocks of an engine, by the state of the NICs; null when none can. */
  readonly findDanger: (engine: EngineId, blocks: readonly BlockId[]) => Danger | null;
  readonly fail: Fail;
}

/** A block that an operation of a request can still touch. */
export interface Danger {
  readonly block: BlockId;
  readonly request: RequestId;
}

export interface Assignment {
  readonly request: RequestId;
  readonly prefill: EngineId;
  readonly decode: EngineId;
}

/** What every judge of a run may look at: who holds what, who was given what, what has ended, who is dead. */
export interface Court {
  readonly config: JudgeConfig;
  readonly topology: Topology;
  readonly fail: Fail;
  readonly ledgers: readonly EngineLedger[];
  readonly assignments: Map<TransferId, Assignment>;
  readonly outcomes: Map<RequestId, string>;
  /** Requests without an outcome yet. */
  readonly unfinished: Set<RequestId>;
  readonly goals: Map<string, number>;
  readonly dead: Set<EngineId>;
  /** Nothing has gone wrong that a transfer may fail of. */
  calm: boolean;
  /** Of each judge that keeps something of its own: see `ownBook`. */
  readonly own: unknown[];
}

export function openCourt(config: JudgeConfig): Court {
  return {
    config,
    topology: config.topology,
    fail: config.fail,
    ledgers: config.blocksPerEngine.map(newLedger),
    assignments: new Map(),
    outcomes: new Map(),
    unfinished: new Set(config.requests.map((request) => request.request)),
    goals: new Map(),
    dead: new Set(),
    calm: true,
    own: [],
  };
}

let books = 0;

/** What one judge notes down for itself. */
export interface OwnBook<Book> {
  /** Made when it is first asked for in a run. */
  of(court: Court): Book;
  /** Undefined as long as nothing was noted. */
  known(court: Court): Book | undefined;
}

/** Called once, when the judge's file is loaded. */
export function ownBook<Book>(create: () => Book): OwnBook<Book> {
  const at = books++;
  return {
    of({ own }) {
      own[at] ??= create();
      return own[at] as Book;
    },
    known: ({ own }) => own[at] as Book | undefined,
  };
}

export function engineOf({ topology }: Court, actor: ActorId): EngineId {
  return topology.actors[actor]!.engine;
}

export function reach({ goals }: Court, goal: string): void {
  goals.set(goal, (goals.get(goal) ?? 0) + 1);
}
