import { isIndex } from '../base/checks.ts';
import { greatest, least } from '../base/lists.ts';
import type { ActorId, BlockId, EngineId, RequestId, Topology, TransferId } from '../base/topology.ts';
import { headsOfRank } from '../kv/view.ts';
import type { Effect, Note, PostedBatch } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import type { CacheMap } from './cache-map.ts';
import { allocate, forgetBlocks, grant, newLedger, share } from './ledger.ts';
import { checkLanding, checkPosted, type OperationRules, stateOf } from './operations.ts';
import { type InvariantId, placeOf } from './verdict.ts';

/**
 * The judges of a run. Told of every fact as it happens, they keep just enough to notice the step at which a promise
 * breaks. They never look into a connector: what holds here holds for any connector behind the plug.
 */

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
  readonly fail: (invariant: InvariantId, place: string, detail: string) => void;
}

/** A block that an operation of a request can still touch. */
export interface Danger {
  readonly block: BlockId;
  readonly request: RequestId;
}

type HeadRange = ReturnType<typeof headsOfRank>;

interface Assignment {
  readonly request: RequestId;
  readonly prefill: EngineId;
  readonly decode: EngineId;
}

export interface Judge {
  readonly goals: Map<string, number>;
  /** Requests without an outcome yet. */
  readonly unfinished: ReadonlySet<RequestId>;
  note(actor: ActorId, note: Note): void;
  sent(from: ActorId, to: ActorId, message: Message): void;
  /** `canLand` is false when nothing of it can touch memory, as after a fence. */
  posted(from: ActorId, batch: PostedBatch, canLand: boolean): number;
  /**
   * `runs` of it land: triples of local offset, remote offset, bytes. `passed` is what `posted` gave: what was right then is
   * right as long as no block has changed hands at either side.
   */
  landed(from: ActorId, batch: PostedBatch, runs: readonly number[], passed: number): void;
  /** An actor asks for what cannot be done; `what` goes on from its name. */
  mistaken(actor: ActorId, effect: Effect['kind'], what: string): void;
  engineDied(engine: EngineId): void;
  /** Something went wrong that a transfer may fail of: a fault, or a delay beyond the protocol's patience. */
  disturbed(): void;
  outcomes(): ReadonlyMap<RequestId, string>;
}

/** Spins without progress that are taken for endless; far above what any finite wait needs. */
export const SPINS_MAX = 400;

export function createJudge(config: JudgeConfig): Judge {
  const { topology, fail } = config;
  const ledgers = config.blocksPerEngine.map(newLedger);
  const assignments = new Map<TransferId, Assignment>();
  const outcomes = new Map<RequestId, string>();
  const unfinished = new Set(config.requests.map((request) => request.request));
  const goals = new Map<string, number>();
  const reports = new Set<string>();
  const turns = new Map<string, number[]>();
  const dead = new Set<EngineId>();
  const spins = new Map<ActorId, number>();

  const engineOf = (actor: ActorId): EngineId => topology.actors[actor]!.engine;
  const place = (actor: ActorId, part: string): string => placeOf(topology, actor, part);
  const name = (actor: ActorId): string => topology.actors[actor]!.name;
  const reach = (goal: string): void => {
    goals.set(goal, (goals.get(goal) ?? 0) + 1);
  };

  const onAllocate = (actor: ActorId, note: Extract<Note, { kind: 'allocate' }>): void => {
    const ledger = ledgers[engineOf(actor)]!;
    const danger = config.findDanger(engineOf(actor), note.blocks);
    if (danger !== null)
      fail(
        'I1',
        place(actor, 'block pool'),
        `${name(actor)} gives block ${danger.block} to request ${note.request} while an operation of request ${danger.request} that names it can still land`,
      );
    for (const block of note.blocks) {
      if (ledger.holders[block]! > 0) {
        const text = `${name(actor)} gives block ${block} to request ${note.request} while request ${ledger.owner[block]} holds it`;
        fail('I1', place(actor, 'block pool'), text);
      }
    }
    allocate(ledger, note.request, note.blocks);
  };

  const onFree = (actor: ActorId, note: Extract<Note, { kind: 'free' }>): void => {
    const ledger = ledgers[engineOf(actor)]!;
    for (const block of note.blocks) {
      if (--ledger.holders[block]! < 0)
        fail(
          'I5',
          place(actor, 'block pool'),
          `${name(actor)} frees block ${block} of request ${note.request}, which is free already`,
        );
    }
    forgetBlocks(ledger, note.request);
  };

  const rules: OperationRules = {
    topology,
    ledgers,
    cacheOf: config.cacheOf,
    promptTokensOf: (request) => config.requests[request]!.promptTokens,
    isDead: (engine) => dead.has(engine),
    fail,
  };

  /** A batch names a transfer, and with it the request that the proxy gave it to. */
  const checkRequest = (from: ActorId, { transfer, request }: PostedBatch): void => {
    const assigned = assignments.get(transfer);
    if (assigned === undefined || assigned.request === request) return;
    const text = `${name(from)} posts for request ${request} in transfer ${transfer}, which is of request ${assigned.request}`;
    fail('I12', place(from, 'post'), text);
  };

  /** Ranks of two engines have something to do with each other if they hold a KV head in common. */
  const shareHeads = (from: ActorId, to: ActorId): boolean => {
    const [one, other] = [from, to].map((actor) => {
      const tpSize = topology.engines[engineOf(actor)]!.ranks.length;
      return headsOfRank(config.heads, tpSize, topology.actors[actor]!.tpRank);
    }) as [HeadRange, HeadRange];
    return one.first < other.first + other.count && other.first < one.first + one.count;
  };

  const checkRoute = (transfer: TransferId, from: ActorId, to: ActorId, what: string): void => {
    const assigned = assignments.get(transfer);
    if (assigned === undefined) return;
    const pair = [engineOf(from), engineOf(to)];
    if (pair.includes(assigned.prefill) && pair.includes(assigned.decode)) {
      if (shareHeads(from, to)) return;
      const text = `${what} of transfer ${transfer} goes from ${name(from)} to ${name(to)}: the right engine, but a TP rank that shares no KV head with it`;
      return fail('I6', place(from, 'routing'), text);
    }
    fail(
      'I6',
      place(from, 'routing'),
      `${what} of transfer ${transfer} goes from ${name(from)} to ${name(to)}, but the request was given to engines ${assigned.prefill} and ${assigned.decode}`,
    );
  };

  /** What a policy claims that has its DP ranks take turns: they are fair if no DP rank of an instance is two requests ahead of another. */
  const countTurn = (engine: EngineId): void => {
    if (!config.ranksTakeTurns || engine < 0 || dead.size > 0) return;
    const spec = topology.engines[engine]!;
    if (spec.dpSize === 1) return;
    const key = `${spec.role} ${spec.instance}`;
    const counts = turns.get(key) ?? new Array<number>(spec.dpSize).fill(0);
    turns.set(key, counts);
    counts[spec.dpRank]!++;
    if (greatest(counts) - least(counts) > 1) {
      fail(
        'I6',
        `proxy choice of ${spec.role} DP rank`,
        `the DP ranks of ${spec.role} instance ${spec.instance} got ${counts.join(' and ')} requests: they do not take turns, as the policy claims`,
      );
    }
  };

  const onOutcome = (note: Extract<Note, { kind: 'outcome' }>): void => {
    const { request, outcome } = note;
    if (outcomes.has(request))
      return fail(
        'I2',
        'proxy outcome',
        `request ${request} ended twice: ${outcomes.get(request)}, then ${outcome}`,
      );
    outcomes.set(request, outcome);
    unfinished.delete(request);
    const judged = config.requests[request]!;
    if (outcome === 'aborted') reach('request-aborted');
    if (outcome === 'failed') {
      if (dead.size === 0 && judged.fits)
        fail('I10', 'proxy outcome', `request ${request} failed (${note.cause}) although nothing went down`);
      else if (dead.size > 0) reach('request-failed-by-crash');
    }
    if (outcome !== 'completed') return;
    reach('request-completed');
    const { reference } = judged;
    const same =
      note.tokens.length === reference.length &&
      note.tokens.every((token, index) => token === reference[index]);
    if (config.checksTokens && !same)
      fail(
        'I4',
        'client answer',
        `request ${request} answered [${note.tokens.join(' ')}], a single node answers [${reference.join(' ')}]`,
      );
  };

  let calm = true;
  /** A rank tells its scheduler the ends of transfers; the judge reads it as the scheduler will. */
  const onReport = (actor: ActorId, report: Extract<Message, { kind: 'report' }>): void => {
    for (const request of [...report.sent, ...report.received, ...report.failed]) {
      const key = `${actor} ${request}`;
      const twice = `${name(actor)} reported the end of request ${request} twice`;
      if (reports.has(key)) fail('I5', place(actor, 'report'), twice);
      reports.add(key);
    }
    for (const request of calm ? report.failed : []) {
      const { aborts, fits } = config.requests[request]!;
      const invented = `${name(actor)} reports the load of request ${request} as failed although nothing went wrong`;
      if (!aborts && fits) fail('I10', place(actor, 'report'), invented);
    }
  };

  const onSpin = (actor: ActorId, note: Extract<Note, { kind: 'spin' }>): void => {
    const spun = (spins.get(actor) ?? 0) + 1;
    spins.set(actor, spun);
    if (spun > SPINS_MAX)
      fail(
        'I9',
        place(actor, note.thread),
        `${name(actor)} has polled ${spun} times for ${note.waitsFor}, and nothing it reads has changed`,
      );
  };

  return {
    goals,
    unfinished,
    outcomes: () => outcomes,
    note(actor, note) {
      switch (note.kind) {
        case 'goal':
          return reach(note.name);
        case 'allocate':
          return onAllocate(actor, note);
        case 'share':
          return share(ledgers[engineOf(actor)]!, note.request, note.blocks);
        case 'external':
          grant(ledgers[engineOf(actor)]!, note.request, { from: note.tokenFrom, to: note.tokenTo });
          return;
        case 'free':
          return onFree(actor, note);
        case 'assign':
          assignments.set(note.transfer, note);
          countTurn(note.prefill);
          if (note.decode !== note.prefill) countTurn(note.decode);
          return;
        case 'outcome':
          return onOutcome(note);
        case 'misread': {
          const { request, layer, token, head, part, block, expected, actual } = note;
          const cell = `layer ${layer}, token ${token}, head ${head}, ${part === 0 ? 'K' : 'V'}, block ${block}`;
          return fail(
            'I4',
            place(actor, 'attention'),
            `${name(actor)} read a wrong cell for request ${request}: ${cell} holds ${hex(actual)}, a single node has ${hex(expected)} there`,
          );
        }
        case 'loaded':
          if (!config.isLoaded(actor, note)) {
            fail(
              'I10',
              place(actor, 'load report'),
              `${name(actor)} reported the KV of request ${note.request} as loaded up to token ${note.tokenTo}, but it is not all there`,
            );
          }
          return;
        case 'died':
          return fail(
            'I7',
            place(actor, note.thread),
            `${name(actor)}: thread ${note.thread} died: ${note.cause}`,
          );
        case 'spin':
          return onSpin(actor, note);
        case 'refused':
          return reach('message-refused');
        case 'firstToken':
        case 'prefixHit':
        case 'say':
          return;
      }
    },
    sent(from, to, message) {
      spins.delete(from);
      if (message.kind === 'report') onReport(from, message);
      const isPeers = topology.actors[from]!.tpRank >= 0 && topology.actors[to]!.tpRank >= 0;
      if (isPeers && message.kind === 'peer' && isIndex(message['transfer']))
        checkRoute(message['transfer'], from, to, message.name);
    },
    posted(from, batch, canLand) {
      checkRoute(batch.transfer, from, batch.peer, batch.operation);
      checkRequest(from, batch);
      return checkPosted(rules, from, batch, canLand);
    },
    landed(from, batch, runs, passed) {
      if (passed !== stateOf(rules, from, batch)) checkLanding(rules, from, batch, runs);
    },
    mistaken: (actor, effect, what) => fail('I12', place(actor, effect), `${name(actor)} ${what}`),
    disturbed: () => {
      calm = false;
    },
    engineDied: (engine) => {
      calm = false;
      dead.add(engine);
      reach('rank-crashed');
    },
  };
}

function hex(word: number): string {
  return `0x${word.toString(16).padStart(8, '0')}`;
}
