import { layTopology, type Mode, type Topology } from '../../src/base/topology.ts';
import type { ConnectorWorker, WorkerEnv } from '../../src/connector/plug.ts';
import { shipped } from '../../src/connector/shipped/index.ts';
import type { ShippedMeta } from '../../src/connector/shipped/state.ts';
import {
  emptyEngineDesc,
  emptyMemoryDesc,
  packEngineDesc,
  packMemoryDesc,
} from '../../src/io/descriptors.ts';
import { headsOfRank, type LayerView, layView } from '../../src/kv/view.ts';
import type { Description, Effect, Emit, Input, Note } from '../../src/wire/machine.ts';
import type { Message } from '../../src/wire/messages.ts';

/** The ranks of one P and two D behind the plug, without schedulers, NIC or network: whoever drives them decides what comes when. */

export interface Shape {
  readonly mode: Mode;
  readonly prefillTp: number;
  readonly decodeTp: number;
  readonly heads: number;
}

const LAYERS = 2;
const BLOCK_TOKENS = 4;
const BLOCKS = 16;

interface Timer {
  readonly actor: number;
  readonly timer: number;
  readonly object: number;
  readonly at: number;
}

export interface Mail {
  readonly from: number;
  readonly to: number;
  readonly message: Message;
}

/** What was turned away, and why. */
type Refused = Extract<Note, { readonly kind: 'refused' }>;

/** What its engine would say, if it had one. */
export function describeRank(key: string, views: readonly LayerView[]): Description {
  const size = BigInt(views.reduce((sum, { bytes }) => sum + bytes, 0));
  return {
    engineDesc: packEngineDesc({ ...emptyEngineDesc(), key }),
    memoryDesc: packMemoryDesc({ ...emptyMemoryDesc(), engineKey: key, size }),
  };
}

export class ShippedRanks {
  readonly topology: Topology;
  readonly mail: Mail[] = [];
  readonly refused: Refused[] = [];
  readonly ended: string[] = [];
  readonly posted: number[] = [];
  /** The loan of a lease ran out. */
  expired = 0;
  now = 0;
  readonly envs = new Map<number, WorkerEnv>();
  readonly #workers = new Map<number, ConnectorWorker>();
  readonly #timers = new Map<string, Timer>();
  readonly #completions: { readonly actor: number; readonly tag: number }[] = [];
  readonly #mode: Mode;

  constructor({ mode, prefillTp, decodeTp, heads }: Shape) {
    this.#mode = mode;
    this.topology = layTopology({
      mode,
      prefillInstances: 1,
      decodeInstances: 2,
      prefillDp: 1,
      decodeDp: 1,
      prefillTp,
      decodeTp,
    });
    for (const spec of this.topology.engines) {
      spec.ranks.forEach((self, tpRank) => {
        const held = headsOfRank(heads, spec.ranks.length, tpRank);
        const views = Array.from({ length: LAYERS }, (_, layer) => {
          const shape = { blockCount: BLOCKS, blockUnits: BLOCK_TOKENS, unitTokens: 1, cellBytes: 16 };
          const bytes = layView(0, 0, { ...shape, order: 'BKNH', headFirst: 0, headCount: held.count }).bytes;
          const heads = { headFirst: held.first, headCount: held.count };
          return layView(layer, layer * bytes, { ...shape, ...heads, order: 'BKNH' });
        });
        const env: WorkerEnv = {
          topology: this.topology,
          spec,
          mode,
          self,
          tpRank,
          heads,
          views,
          regionBytes: views.reduce((sum, { bytes }) => sum + bytes, 0),
          slotTokens: 1,
          blockTokens: BLOCK_TOKENS,
          queuePairs: 1,
          sendQueueDepth: 8,
          describe: () => describeRank(this.topology.actors[self]!.name, views),
        };
        this.envs.set(self, env);
        this.#workers.set(self, shipped.createWorker(env));
      });
    }
  }

  ranks(engine: number): readonly number[] {
    return this.topology.engines[engine]!.ranks;
  }

  census(): number {
    return [...this.#workers.values()].reduce((sum, worker) => sum + worker.census(), 0);
  }

  step(actor: number, input: Input): void {
    this.#workers.get(actor)!.step(this.now, input, this.#emitOf(actor));
    this.#collect(actor);
  }

  deliver({ from, to, message }: Mail): void {
    this.step(to, { kind: 'message', from, message });
  }

  /** P's half of a request of three blocks whose KV is all computed. */
  startPrefill(transfer: number, decodeEngine: number): void {
    const order = { request: transfer, transfer, blocks: blocksOf(transfer), tokenTo: 10 };
    for (const rank of this.ranks(0)) {
      const write = this.#mode === 'write';
      this.#tell(rank, {
        lends: write ? [] : [order],
        saves: write ? [{ ...order, remoteEngine: decodeEngine, promptTokens: 10 }] : [],
      });
      for (let layer = 0; write && layer < LAYERS; layer++)
        this.#workers.get(rank)!.saveKvLayer(layer, this.now, this.#emitOf(rank));
      this.#collect(rank);
    }
  }

  /** D's half. */
  startDecode(transfer: number, decodeEngine: number): void {
    const order = { request: transfer, transfer, remoteEngine: 0, blocks: blocksOf(transfer + 1) };
    for (const rank of this.ranks(decodeEngine))
      this.#tell(rank, { loads: [{ ...order, tokenFrom: 0, tokenTo: 9, lineageAddress: 0 }] });
  }

  cancel(transfer: number, engine: number): void {
    for (const rank of this.ranks(engine)) this.#tell(rank, { cancels: [transfer] });
  }

  /** One step of what waits here: the mail or completion that `pick` says, or the next timer. False when nothing waits. */
  advance(pick: number): boolean {
    const waiting = this.mail.length + this.#completions.length;
    if (waiting === 0) return this.#ring();
    this.now++;
    const index = pick % waiting;
    if (index < this.mail.length) this.deliver(this.mail.splice(index, 1)[0]!);
    else {
      const { actor, tag } = this.#completions.splice(index - this.mail.length, 1)[0]!;
      this.step(actor, { kind: 'completion', tag, code: 0 });
    }
    return true;
  }

  /** Everything that waits, timers included, in order. */
  finish(): void {
    for (let steps = 0; this.advance(0); steps++) {
      if (steps === 100_000) throw new Error('no end after 100,000 steps');
    }
  }

  #ring(): boolean {
    let next: [string, Timer] | undefined;
    for (const entry of this.#timers) if (next === undefined || entry[1].at < next[1].at) next = entry;
    if (next === undefined) return false;
    const [key, { actor, timer, object, at }] = next;
    this.#timers.delete(key);
    this.now = Math.max(this.now, at);
    this.step(actor, { kind: 'timer', timer, object });
    return true;
  }

  #tell(rank: number, part: Partial<ShippedMeta>): void {
    const meta: ShippedMeta = { loads: [], lends: [], saves: [], cancels: [], ...part };
    this.#workers.get(rank)!.startLoadKv(meta, this.now, this.#emitOf(rank));
    this.#collect(rank);
  }

  #collect(actor: number): void {
    const finished = this.#workers.get(actor)!.getFinished();
    if (finished === null) return;
    for (const [what, requests] of Object.entries(finished))
      for (const request of requests as readonly number[]) this.ended.push(`${actor} ${what} ${request}`);
  }

  #emitOf(actor: number): Emit {
    return (effect) => this.#perform(actor, effect);
  }

  #perform(actor: number, effect: Effect): void {
    if (effect.kind === 'send') this.mail.push({ from: actor, to: effect.to, message: effect.message });
    else if (effect.kind === 'arm') {
      const { timer, object, earliest } = effect;
      this.#timers.set(`${actor} ${timer} ${object}`, { actor, timer, object, at: earliest });
    } else if (effect.kind === 'stop') this.#timers.delete(`${actor} ${effect.timer} ${effect.object}`);
    else if (effect.kind === 'post') {
      this.posted.push(effect.batch.transfer);
      this.#completions.push({ actor, tag: effect.batch.tag });
    } else if (effect.kind === 'note' && effect.note.kind === 'refused') this.refused.push(effect.note);
    else if (effect.kind === 'note' && effect.note.kind === 'goal' && effect.note.name === 'lease-expired')
      this.expired++;
  }
}

/** Three blocks for the eleventh and all other transfers, within a cache of 16. */
function blocksOf(transfer: number): number[] {
  return [0, 1, 2].map((index) => (transfer * 3 + index) % BLOCKS);
}
