import { CONTEXT_NUMBERS, LAYER_NUMBERS, type LayerView, PART_NUMBERS } from '../../base/cache-view.ts';
import { isIndex, isRecord } from '../../base/checks.ts';
import type { EngineId, Mode, Role } from '../../base/topology.ts';
import {
  bytes,
  type Field,
  flag,
  index,
  indices,
  type PeerForm,
  type PeerMessageOf,
} from '../../wire/peer-codec.ts';

/** Geometry one rank tells a peer in the handshake, so that a refusal can name its cause. */
export interface RankGeometry {
  readonly engine: EngineId;
  readonly role: Role;
  readonly tpRank: number;
  readonly tpSize: number;
  readonly blockTokens: number;
  readonly views: readonly LayerView[];
}

const GEOMETRY_NUMBERS = ['engine', 'tpRank', 'tpSize', 'blockTokens'] as const;

const geometry: Field<RankGeometry> = (value): value is RankGeometry => {
  if (!isRecord(value)) return false;
  const { role, views } = value;
  if (role !== 'prefill' && role !== 'decode') return false;
  if (!GEOMETRY_NUMBERS.every((field) => isIndex(value[field]))) return false;
  return Array.isArray(views) && views.every(isLayerView);
};

/** Of the right types, and with pages that a plan can count in. */
function isLayerView(value: unknown): boolean {
  if (!isRecord(value) || typeof value['form'] !== 'string') return false;
  const { parts, blockUnits, context } = value;
  if (!LAYER_NUMBERS.every((field) => isIndex(value[field])) || !Array.isArray(parts)) return false;
  if (!isContextView(context)) return false;
  return (blockUnits as number) > 0 && (value['unitTokens'] as number) > 0 && parts.every(isPartView);
}

function isContextView(value: unknown): boolean {
  if (!isRecord(value) || !CONTEXT_NUMBERS.every((field) => isIndex(value[field]))) return false;
  return (value['rank'] as number) < (value['ranks'] as number) && (value['interleaveUnits'] as number) > 0;
}

function isPartView(value: unknown): boolean {
  if (!isRecord(value) || typeof value['name'] !== 'string') return false;
  return PART_NUMBERS.every((field) => isIndex(value[field])) && (value['pageUnits'] as number) > 0;
}

/** The target owns the memory that is touched (D in WRITE mode, P in READ mode); the initiator posts. */
export type Half = 'initiator' | 'target';

/** One message of the protocol: its fields, who may send it when, its words, and its row in docs/PROTOCOL.md. */
interface ShippedForm extends PeerForm {
  readonly says: string;
  readonly sender: Half;
  readonly mode: Mode | 'both';
  readonly page: {
    readonly answer: string;
    readonly lost: string;
    readonly twice: string;
    readonly late: string;
  };
}

export const FORMS = {
  /** Asks for the target's descriptors. */
  metaRequest: {
    fields: { attempt: index },
    about: 'attempt',
    says: 'handshake request',
    sender: 'initiator',
    mode: 'both',
    page: {
      answer: 'metaReply',
      lost: 'repeated, then the session times out and its transfers stop',
      twice: 'answered twice',
      late: 'answered',
    },
  },
  metaReply: {
    fields: { attempt: index, epoch: index, engineDesc: bytes, memoryDesc: bytes, geometry },
    about: 'attempt',
    says: 'handshake reply',
    sender: 'target',
    mode: 'both',
    page: {
      answer: '-',
      lost: 'the request is repeated',
      twice: 'passed over: the session is not Asking',
      late: 'passed over after the time-out; used if the session asks again',
    },
  },
  /** D asks P's rank for leave to read. */
  claim: {
    fields: { transfer: index, tpSize: index, attempt: index },
    says: 'claim of transfer {transfer}',
    sender: 'initiator',
    mode: 'read',
    page: {
      answer: 'grant or refuse',
      lost: 'repeated, then the peer stops and seals without success',
      twice: 'the same grant again while Granted, else refuse',
      late: 'kept if the lease is not there yet, refused if it is over or its sender has sealed',
    },
  },
  /**
   * Lends blocks. `grant` counts up per (target, initiator), so that a stale copy is known by its number alone.
   * `blocks[0]` holds slot `firstSlot`; only slots [slotFrom, slotTo) may be touched, and only over a connection of the
   * same `epoch`: a fence starts a new one, and what was granted before it is void.
   */
  grant: {
    fields: {
      transfer: index,
      grant: index,
      blocks: indices,
      epoch: index,
      firstSlot: index,
      slotFrom: index,
      slotTo: index,
      attempt: index,
    },
    says: 'grant {grant} for transfer {transfer}: blocks {blocks}, slots from {slotFrom} below {slotTo}',
    sender: 'target',
    mode: 'both',
    page: {
      answer: 'the transfer, at last a seal',
      lost: 'WRITE: repeated by D; READ: D repeats the claim',
      twice: 'passed over while moving, answered with the seal afterwards',
      late: 'kept if the request is not there yet; if its number is stale nothing is touched, and a seal answers it once the transfer is over',
    },
  },
  refuse: {
    fields: { transfer: index, attempt: index },
    says: 'refusal of transfer {transfer}',
    sender: 'target',
    mode: 'read',
    page: {
      answer: '-',
      lost: 'the claim is repeated and refused again',
      twice: 'passed over: the peer is not Waiting',
      late: 'passed over likewise',
    },
  },
  /** No operation of mine names these blocks any more. `ok` says that all of them landed. */
  seal: {
    fields: { transfer: index, ok: flag, tpSize: index, attempt: index },
    says: 'seal of transfer {transfer}, ok {ok}',
    sender: 'initiator',
    mode: 'both',
    page: {
      answer: 'sealAck',
      lost: 'repeated; if all are lost the target revokes and the answer is a seal',
      twice: 'acknowledged twice, counted once',
      late: 'acknowledged; a settled lease is not moved by it; READ: before the lease is there it is kept',
    },
  },
  sealAck: {
    fields: { transfer: index, attempt: index },
    says: 'acknowledgement of the seal of transfer {transfer}',
    sender: 'target',
    mode: 'both',
    page: {
      answer: '-',
      lost: 'the seal is repeated',
      twice: 'passed over: the peer is not Sealed',
      late: 'passed over likewise',
    },
  },
  /** The target wants its blocks back: stop, drain, then seal. */
  revoke: {
    fields: { transfer: index, grant: index, attempt: index },
    says: 'revoke of transfer {transfer}',
    sender: 'target',
    mode: 'both',
    page: {
      answer: 'seal, when drained',
      lost: 'repeated, then the peer is fenced',
      twice: 'stopping twice changes nothing',
      late: 'answered with the seal of the ended transfer; before the request came it is answered with a seal, and kept',
    },
  },
} as const satisfies { readonly [name: string]: ShippedForm };

export type ShippedName = keyof typeof FORMS;

/** The protocol from rank to rank; with a name, that message. */
export type ShippedMessage<N extends ShippedName = ShippedName> = Extract<
  PeerMessageOf<typeof FORMS>,
  { readonly name: N }
>;
