import { popInboundTransferStatus } from '../../../src/io/engine/engine.ts';
import type { Call, IOEngine, Session } from '../../../src/io/engine/state.ts';
import type { RdmaBackendConfig } from '../../../src/io/rdma-config.ts';
import { createStatus, type TransferStatus } from '../../../src/io/transfer-status.ts';
import { wrIdBits } from '../../reference/wr-id-bits.ts';
import {
  addPair,
  createRig,
  finishCall,
  type Pair,
  type PairOptions,
  type Rig,
  type Row,
  start,
} from './rig.ts';

/** Writes what an engine does in the form of mori-io-traces.json. */

export interface TraceStep {
  step: string;
  posts: object[];
  results: object[];
  qps?: object[];
}

export interface TraceScenario {
  readonly scenario: string;
  readonly config: Partial<RdmaBackendConfig>;
  readonly nics: number;
  readonly steps: TraceStep[];
}

export class Recorder {
  readonly rig: Rig;
  readonly steps: TraceStep[] = [];
  readonly #config: Partial<RdmaBackendConfig>;
  readonly #stalled = new Set<number>();

  constructor(config: Partial<RdmaBackendConfig>, nics: number) {
    this.#config = config;
    this.rig = createRig({
      queuePairMade: (qp, dev, sizes) => {
        const { sendWr, recvWr, sge, inlineBytes, cqe } = sizes;
        const now = this.#now;
        now.qps ??= [];
        now.qps.push({
          qp,
          dev,
          maxSendWr: sendWr,
          maxRecvWr: recvWr,
          maxSendSge: sge,
          maxInline: inlineBytes,
          cqe,
        });
      },
      posted: (qpn, chain, posted, errno) => this.#recordChain(qpn, chain, posted, errno),
      notified: (qpn, wrId, errno) => {
        if (errno !== 0) this.#now.posts.push({ ev: 'post_fail', qp: qpn, errno });
        else {
          const id = wrIdBits(wrId) & ((1n << 63n) - 1n);
          this.#now.posts.push({
            dev: this.#nicOf(qpn),
            qp: qpn,
            chainPos: 0,
            op: 'SEND',
            wrId: `notif:${id}`,
            signaled: true,
            inline: true,
            len: 16,
          });
        }
      },
    });
    this.rig.nicCount = nics;
  }

  get #now(): TraceStep {
    return this.steps[this.steps.length - 1];
  }

  #nicOf(qpn: number): string {
    return this.rig.sim.queuePairs.get(qpn)!.nic;
  }

  #recordChain(
    qpn: number,
    chain: Parameters<NonNullable<Rig['hooks']['posted']>>[1],
    posted: number,
    errno: number,
  ): void {
    const { regions } = this.rig.sim;
    const offsetIn = (key: number, offset: number): number => {
      const region = regions.get(key);
      return region !== undefined && offset >= 0 && offset <= region.bytes ? offset : -1;
    };
    for (let at = chain.first; at < chain.first + posted; at += 1) {
      const { remoteOffset, bytes, sges } = chain.workRequests[at];
      const isTail = chain.signaled && at === chain.end - 1;
      this.#now.posts.push({
        dev: this.#nicOf(qpn),
        qp: qpn,
        chainPos: at - chain.first,
        op: chain.operation.toUpperCase(),
        wrId: wrIdBits(isTail ? chain.tailId : chain.innerId).toString(),
        signaled: isTail,
        sges: sges.map((sge) => [offsetIn(chain.lkey, sge.offset), sge.bytes]),
        remoteOff: offsetIn(chain.rkey, remoteOffset),
        len: bytes,
      });
    }
    if (errno !== 0) this.#now.posts.push({ ev: 'post_fail', qp: qpn, errno });
  }

  step(step: string): void {
    this.steps.push({ step, posts: [], results: [] });
  }

  result(result: object): void {
    this.#now.results.push(result);
  }

  pair(options: PairOptions & { readonly config?: Partial<RdmaBackendConfig> } = {}): Pair {
    const { config = this.#config, ...rest } = options;
    return addPair(this.rig, config, { bytes: 9 * 1024 * 1024, ...rest });
  }

  /** One session call to its end. */
  call(
    from: { readonly initiator: IOEngine; readonly session: Session },
    id: number,
    rows: readonly Row[],
    options: { read?: boolean; single?: boolean; status?: TransferStatus; only?: IOEngine } = {},
  ): Call {
    const { read = false, single = false, status = createStatus(), only } = options;
    const call = start(from.initiator, from.session, {
      rows,
      id,
      single,
      status,
      operation: read ? 'read' : 'write',
    });
    finishCall(this.rig, call, only);
    for (const { qpn, stalled } of this.rig.sim.queuePairs.values()) {
      if (!stalled || this.#stalled.has(qpn)) continue;
      this.#stalled.add(qpn);
      this.#now.posts.push({ ev: 'rnr_stall', qp: qpn });
    }
    return call;
  }

  /** A step of one call, whose status bears the step's name. */
  callStep(
    name: string,
    from: { readonly initiator: IOEngine; readonly session: Session },
    id: number,
    rows: readonly Row[],
    options: { read?: boolean; single?: boolean; only?: IOEngine } = {},
  ): Call {
    this.step(name);
    const call = this.call(from, id, rows, options);
    this.status(name, call.status);
    return call;
  }

  status(what: string, { code, message }: TransferStatus): void {
    this.result({ ev: 'status', what, code, message });
  }

  code(what: string, { code }: TransferStatus): void {
    this.result({ ev: 'status', what, code });
  }

  pop(what: string, engine: IOEngine, remoteKey: string, id: number): void {
    const status = createStatus();
    const popped = popInboundTransferStatus(engine, remoteKey, id, status);
    this.result({ ev: 'pop', what, id, popped: Number(popped), code: status.code });
  }
}
