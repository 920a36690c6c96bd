import { SmallMap } from '../../base/small-map.ts';
import type {
  Call,
  Endpoint,
  IOEngine,
  Ledger,
  LedgerRecord,
  RdmaBackend,
  Slice,
  Transfer,
  Waiter,
} from './state.ts';

/** Send-queue credit and the ledger of what is posted (mori-io.md A8). */

/** `no-room` is the one that waiting may cure. */
export type Reservation = 'reserved' | 'no-room' | 'degraded' | 'exceeds';

/** Takes slots of an endpoint's send queue. A depth below zero, which only a lost count can give, is mended. */
export function reserveCredit(endpoint: Endpoint, wanted: number): Reservation {
  if (endpoint.degraded) return 'degraded';
  if (wanted > endpoint.sizes.sendWr) return 'exceeds';
  const depth = Math.max(endpoint.depth, 0) + wanted;
  if (endpoint.health !== 'up' || depth > endpoint.sizes.sendWr) return 'no-room';
  endpoint.depth = depth;
  return 'reserved';
}

/** Whether waiting is over, were somebody to look: there is room, or there never will be. */
export function isAdmitted(endpoint: Endpoint, wanted: number): boolean {
  const { degraded, health, sizes, depth } = endpoint;
  return degraded || (health === 'up' && Math.max(depth, 0) + wanted <= sizes.sendWr);
}

/** Record ids start above the zone of the receives. */
export function createLedger(firstId: number): Ledger {
  return { nextId: firstId, records: new SmallMap(), orphans: 0, orphaned: [] };
}

/** Before the post, so that a completion always finds it. */
export function insertRecord(ledger: Ledger, record: LedgerRecord): number {
  const id = ledger.nextId;
  ledger.nextId += 1;
  ledger.records.set(id, record);
  return id;
}

/** Takes the record of a completion out, if there is one; its slots come back. */
export function takeRecord(endpoint: Endpoint, id: number): LedgerRecord | undefined {
  const { records } = endpoint.ledger;
  const record = records.get(id);
  if (record === undefined) return undefined;
  records.delete(id);
  endpoint.depth -= record.posted;
  return record;
}

/**
 * A degraded endpoint recovers: slots that no record stands for come back, those of records do not.
 * @returns the transfers they belonged to
 */
export function recover(endpoint: Endpoint): readonly Transfer[] {
  const { ledger } = endpoint;
  const { orphaned } = ledger;
  endpoint.depth -= ledger.orphans;
  ledger.orphans = 0;
  ledger.orphaned = [];
  endpoint.degraded = false;
  return orphaned;
}

/** Blocks a submission or a notification on an endpoint; the timer is armed once for each such wait. */
export function wait(
  engine: IOEngine,
  backend: RdmaBackend,
  endpoint: Endpoint,
  call: Call,
  slice: Slice | null,
): void {
  const owner = slice ?? call;
  if (owner.waiter === null) {
    owner.waiter = { number: backend.nextWaiter, endpoint, call, slice };
    backend.nextWaiter += 1;
    backend.waiters.set(owner.waiter.number, owner.waiter);
    engine.host.arm(owner.waiter.number, engine.nowMicros + backend.backoffMicros);
  }
  endpoint.waiters.push(owner.waiter);
}

/** The wait is over, one way or the other. */
export function endWait(engine: IOEngine, backend: RdmaBackend, owner: Call | Slice): void {
  const { waiter } = owner;
  if (waiter === null) return;
  owner.waiter = null;
  backend.waiters.delete(waiter.number);
  engine.host.disarm(waiter.number);
  waiter.endpoint.waiters = waiter.endpoint.waiters.filter((other) => other !== waiter);
}

/** All who wait on an endpoint, in order; whoever still lacks room queues again. */
export function takeWaiters(endpoint: Endpoint): readonly Waiter[] {
  const { waiters } = endpoint;
  if (waiters.length > 0) endpoint.waiters = [];
  return waiters;
}
