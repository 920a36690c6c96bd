import { layTopology, type Mode, PROXY } from '../../../src/base/topology.ts';
import type { ConnectorScheduler, FinishVerdict, Matched, RequestView } from '../../../src/connector/plug.ts';
import { createScheduler, stepScheduler } from '../../../src/serving/scheduler.ts';
import type { Effect, Note } from '../../../src/wire/machine.ts';
import type { Answer, Generate, LocalMessage, Message, StepItem } from '../../../src/wire/messages.ts';

type RunStep = Extract<LocalMessage, { kind: 'runStep' }>;

/** A connector that does nothing unless a test says otherwise, and remembers how it was called. */
class StubConnector implements ConnectorScheduler {
  readonly calls: string[] = [];
  matched: (view: RequestView) => Matched = () => ({ tokens: 0, async: false });
  verdict: FinishVerdict = { keepBlocks: false, params: null };
  keepOnAbort = false;
  meta: unknown = null;
  /** The items of every step, as it got them. */
  readonly seen: (readonly StepItem[])[] = [];

  getNumNewMatchedTokens(view: RequestView, computed: number): Matched {
    const matched = this.matched(view);
    return { ...matched, tokens: Math.max(0, matched.tokens - computed) };
  }
  updateStateAfterAlloc(view: RequestView, externalTokens: number): void {
    this.calls.push(`alloc ${view.request} ${externalTokens}`);
  }
  buildConnectorMeta(items: readonly StepItem[]): unknown {
    this.seen.push(items);
    const { meta } = this;
    this.meta = null;
    return meta;
  }
  hasMeta(): boolean {
    return this.meta !== null;
  }
  requestFinished(view: RequestView): FinishVerdict {
    this.calls.push(`finished ${view.request}`);
    return this.verdict;
  }
  requestAborted(view: RequestView): boolean {
    this.calls.push(`aborted ${view.request}`);
    return this.keepOnAbort;
  }
  requestForgotten(request: number): void {
    this.calls.push(`forgotten ${request}`);
  }
  census(): number {
    return 0;
  }
}

export interface Options {
  readonly mode?: Mode;
  readonly tp?: number;
  readonly blocks?: number;
  readonly batchTokensMax?: number;
  readonly batchRequestsMax?: number;
  readonly lookAheadTokens?: number;
  readonly lendsLists?: boolean;
}

const BLOCK_TOKENS = 4;

/** One scheduler, its ranks and the proxy played by the test. */
export class Bench {
  readonly connector = new StubConnector();
  readonly scheduler: number;
  readonly ranks: readonly number[];
  readonly answers: Answer[] = [];
  readonly notes: Note[] = [];
  readonly state;
  step: RunStep | null = null;
  turns = 0;

  constructor(options: Options = {}) {
    const {
      mode = 'write',
      tp = 1,
      blocks = 12,
      batchTokensMax = 8,
      batchRequestsMax = 8,
      lookAheadTokens = 0,
      lendsLists = false,
    } = options;
    const topology = layTopology({
      mode,
      prefillInstances: 1,
      decodeInstances: 1,
      prefillDp: 1,
      decodeDp: 1,
      prefillTp: tp,
      decodeTp: 1,
    });
    const spec = topology.engines[0]!;
    this.scheduler = spec.scheduler;
    this.ranks = spec.ranks;
    const config = {
      spec,
      mode,
      blocks,
      blockTokens: BLOCK_TOKENS,
      batchTokensMax,
      batchRequestsMax,
      lookAheadTokens,
      scheduleMicros: 2,
      lendsLists,
    };
    this.state = createScheduler(config, this.connector);
  }

  readonly #emit = (effect: Effect): void => {
    if (effect.kind === 'turn') this.turns++;
    if (effect.kind === 'note') this.notes.push(effect.note);
    if (effect.kind === 'send' && effect.to === PROXY) this.answers.push(effect.message as Answer);
    if (effect.kind === 'send' && this.ranks.includes(effect.to)) this.step = effect.message as RunStep;
  };

  tell(from: number, message: Message): void {
    stepScheduler(this.state, 0, { kind: 'message', from, message }, this.#emit);
  }

  ask(
    request: number,
    promptTokens: number,
    change: Partial<Generate> & { keys?: readonly number[] } = {},
  ): void {
    const { keys, ...rest } = change;
    const maxTokens = rest.maxTokens ?? 1;
    const full = Math.floor(promptTokens / BLOCK_TOKENS);
    const blockKeys = keys ?? Array.from({ length: full }, (_, index) => request * 1000 + index);
    const prompt = { request, promptTokens, maxTokens, lineageAddress: 4096 * request, blockKeys };
    const generate: Generate = {
      kind: 'generate',
      request,
      transfer: 100 + request,
      leg: 'whole',
      prompt,
      maxTokens,
      remoteEngine: 1,
      params: null,
      ...rest,
    };
    this.tell(PROXY, generate);
  }

  abort(request: number): void {
    this.tell(PROXY, { kind: 'abort', request, transfer: 100 + request });
  }

  report(tpRank: number, end: 'sent' | 'received' | 'failed', request: number): void {
    const none = { sent: [], received: [], failed: [] };
    this.tell(this.ranks[tpRank]!, { kind: 'report', tpRank, ...none, [end]: [request] });
  }

  /** Takes the pending turn, if there is one; the items of the step it starts, or null when none starts. */
  turn(): readonly StepItem[] | null {
    this.step = null;
    if (this.turns === 0) return null;
    this.turns = 0;
    stepScheduler(this.state, 0, { kind: 'turn', thread: 0 }, this.#emit);
    return (this.step as RunStep | null)?.items ?? null;
  }

  /** Every rank ends the step in flight with these sums. */
  done(sum = 1): void {
    const flight = this.state.inFlight!;
    this.ranks.forEach((rank, tpRank) => {
      this.tell(rank, { kind: 'stepDone', step: flight.step, tpRank, sums: flight.items.map(() => sum) });
    });
  }

  /** Steps until nothing is left to do; the items of each, as `request:from-to`. */
  runOut(): string[] {
    const steps: string[] = [];
    for (let items = this.turn(); items !== null; items = this.turn()) {
      if (items.length === 0) continue;
      steps.push(items.map((item) => `${item.request}:${item.tokenFrom}-${item.tokenTo}`).join(' '));
      this.done();
      if (steps.length > 100) break;
    }
    return steps;
  }

  goals(): string[] {
    return this.notes.flatMap((note) => (note.kind === 'goal' ? [note.name] : []));
  }

  refusals(): unknown[] {
    return this.notes.flatMap((note) => (note.kind === 'refused' ? [[note.reason, note.fields]] : []));
  }
}
