import type { MemoryDesc } from '../descriptors.ts';
import type { IOEngine, PoolSlot, RdmaBackend } from './state.ts';

/** Regions of our own memory on our NICs, registered when first needed (mori-io.md A14). */

export function regionOn(engine: IOEngine, backend: RdmaBackend, nic: number, memory: MemoryDesc): PoolSlot {
  const byId = `${nic}:${memory.id}`;
  const known = backend.regions.get(byId);
  if (known !== undefined) return known;
  // A NIC gives a new key for each registration; upstream's pool gives one for each pointer.
  const key = engine.quirks.pointerSharesSlot ? `${nic}:${memory.data}` : byId;
  const slot = backend.pool.get(key) ?? {
    key,
    nic,
    region: engine.host.registerRegion(nic, memory.data, memory.size),
  };
  backend.pool.set(key, slot);
  backend.regions.set(byId, slot);
  return slot;
}

/** Upstream's pool deregisters whatever lies at the pointer, whoever registered it, even later (0.16). */
export function dropRegions(engine: IOEngine, backend: RdmaBackend, memoryId: number): void {
  for (let nic = 0; nic < engine.machine.nics.length; nic += 1) {
    const byId = `${nic}:${memoryId}`;
    const slot = backend.regions.get(byId);
    if (slot === undefined) continue;
    backend.regions.delete(byId);
    const current = backend.pool.get(slot.key);
    if (current === undefined) continue;
    backend.pool.delete(slot.key);
    engine.host.deregisterRegion(nic, current.region);
  }
}
