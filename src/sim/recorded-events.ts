import { isIndex } from '../base/checks.ts';
import type { CarriedRow, EventRow, LandingState } from '../record/events.ts';
import { messageRow } from '../record/messages.ts';
import type { Input } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import type { RequestSetup } from './draws.ts';
import { EVENT, type WorldEvent } from './event-queue.ts';
import type { OpenBatch } from './nic-batches.ts';
import type { Flight, NicEvent } from './nic-flights.ts';

/** What happens next, as a row of the record: looked at before anything comes of it. */
export function eventRow({ kind, input, payload }: WorldEvent): EventRow {
  switch (kind) {
    case EVENT.arrive: {
      const { request, promptTokens, outputTokens, ordinary } = payload as RequestSetup;
      return { kind: 'arrive', request, promptTokens, outputTokens, ordinary: ordinary !== 'no' };
    }
    case EVENT.abort:
      return { kind: 'abort', request: (payload as RequestSetup).request };
    case EVENT.crash:
      return { kind: 'crash' };
    case EVENT.lost:
      return { kind: 'lost', message: messageRow(payload as Message) };
    case EVENT.stray:
      return { kind: 'stray', message: messageRow((input as Extract<Input, { kind: 'message' }>).message) };
    case EVENT.land:
      return landingRow(payload as Flight);
    case EVENT.complete:
    case EVENT.engineTimer:
      return nicRow(payload as NicEvent);
    default:
      return inputRow(input as Exclude<Input, { kind: 'completion' }>);
  }
}

/** A fault of the adversary's, not the system's own doing. */
export function isFault({ kind, payload }: WorldEvent): boolean {
  if (kind === EVENT.land) return (payload as Flight).effect !== null;
  return kind === EVENT.crash || kind === EVENT.lost || kind === EVENT.stray;
}

interface Subject {
  readonly transfer: number;
  readonly request: number;
}

const NOTHING: Subject = { transfer: -1, request: -1 };

/** Which transfer and request a step is about. */
export function subjectOf(event: EventRow): Subject {
  if ('message' in event) return { ...NOTHING, ...pick(event.message) };
  if (event.kind === 'land') return { ...NOTHING, ...pick(event.carried) };
  return { ...NOTHING, ...pick(event) };
}

function pick(row: object): Partial<Subject> {
  // A connector's own message may hold anything under these names.
  const { transfer, request } = row as { readonly transfer?: unknown; readonly request?: unknown };
  return { ...(isIndex(transfer) ? { transfer } : {}), ...(isIndex(request) ? { request } : {}) };
}

/** A completion is no event of its own: a rank hears of it in the step in which its engine sees it. */
function inputRow(input: Exclude<Input, { kind: 'completion' }>): EventRow {
  switch (input.kind) {
    case 'message':
      return { kind: 'message', from: input.from, message: messageRow(input.message) };
    case 'timer':
      return { kind: 'timer', timer: input.timer, object: input.object };
    case 'turn':
      return { kind: 'turn', thread: input.thread };
    case 'joined':
      return { kind: 'joined', phase: input.phase };
  }
}

function landingRow(flight: Flight): EventRow {
  const { lane, effect } = flight;
  return {
    kind: 'land',
    from: lane.initiator,
    queuePair: lane.queuePair.qpn,
    state: landingState(flight),
    nicFault: effect?.name ?? '',
    carried: carriedRow(flight),
  };
}

function landingState(flight: Flight): LandingState {
  const { lane, effect, cancelled, message } = flight;
  if (cancelled) return 'void';
  if (lane.flights[0] !== flight) return 'waits';
  if (lane.queuePair.broken) return 'flushed';
  const hasNoReceive = effect?.notReadyMicros !== undefined || lane.queuePair.peer?.receives === 0;
  return message !== null && hasNoReceive ? 'not-ready' : 'lands';
}

function carriedRow({ open, message, workRequests }: Flight): CarriedRow {
  return {
    carries: message !== null ? 'notification' : open === null ? 'credit' : 'batch',
    operation: open?.batch.operation ?? 'write',
    workRequests,
    layer: open?.batch.layer ?? -1,
    ...aboutBatch(open),
    engineTransfer: message?.id ?? -1,
    blocks: open === null ? [] : [...open.batch.remoteBlocks],
  };
}

function aboutBatch(open: OpenBatch | null): Subject {
  return open === null ? NOTHING : { transfer: open.batch.transfer, request: open.batch.request };
}

/** What the engine of a rank is told. */
function nicRow(event: NicEvent): EventRow {
  switch (event.kind) {
    case 'entry': {
      const { completion, open } = event;
      const { qpn, opcode, status } = completion;
      const layer = open?.batch.layer ?? -1;
      return { kind: 'completion', queuePair: qpn, opcode, status, layer, ...aboutBatch(open) };
    }
    case 'ended': {
      const { open } = event;
      const { batch, status } = open;
      const { code, message } = status;
      const { queuePair, layer } = batch;
      return { kind: 'ended', queuePair, code, status: message, layer, ...aboutBatch(open) };
    }
    case 'timer':
      return { kind: 'engineTimer', timer: event.timer };
    case 'overflow':
      return { kind: 'overflow', queuePair: event.qpn };
  }
}
