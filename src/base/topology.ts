import { freezeDeep } from './freeze.ts';

/** Who takes part in a run. Plain data, fixed for the length of a run; every id is a small integer and an index into a list here. */

/** An actor is anything that receives inputs: the proxy (always 0), an engine's scheduler, or one TP rank's worker. */
export type ActorId = number;
export type EngineId = number;
export type RequestId = number;
/** One movement of one request's KV. Drawn by the proxy, carried by every message about that movement. */
export type TransferId = number;
export type BlockId = number;

export type Role = 'prefill' | 'decode';
export type Mode = 'read' | 'write';

export const PROXY: ActorId = 0;

/** One engine: one DP rank of an instance, with a scheduler and `ranks.length` TP ranks that run in lock-step. */
export interface EngineSpec {
  readonly engine: EngineId;
  readonly role: Role;
  readonly instance: number;
  readonly dpRank: number;
  readonly dpSize: number;
  readonly scheduler: ActorId;
  /** Worker actors in TP-rank order. */
  readonly ranks: readonly ActorId[];
}

export interface ActorSpec {
  readonly actor: ActorId;
  /** How people see it: `proxy`, `P0`, `D1.r0`, `P0/1.r0` for DP rank 1. */
  readonly name: string;
  /** -1 for the proxy. */
  readonly engine: EngineId;
  /** -1 for the proxy and for schedulers. */
  readonly tpRank: number;
}

export interface Topology {
  readonly mode: Mode;
  readonly engines: readonly EngineSpec[];
  readonly actors: readonly ActorSpec[];
}

export interface Shape {
  readonly mode: Mode;
  readonly prefillInstances: number;
  readonly decodeInstances: number;
  readonly prefillDp: number;
  readonly decodeDp: number;
  readonly prefillTp: number;
  readonly decodeTp: number;
}

/** Topologies that were laid: a campaign has few shapes, and freezing one costs more than laying it. */
const LAID = new Map<string, Topology>();
const LAID_MAX = 256;

/** Numbers the actors of a cluster: the proxy, then each engine's scheduler followed by its ranks. Nobody can change it. */
export function layTopology(shape: Shape): Topology {
  const { mode, prefillInstances, decodeInstances, prefillDp, decodeDp, prefillTp, decodeTp } = shape;
  const key = `${mode} ${prefillInstances} ${decodeInstances} ${prefillDp} ${decodeDp} ${prefillTp} ${decodeTp}`;
  const known = LAID.get(key);
  if (known !== undefined) return known;
  const topology = freezeDeep(lay(shape));
  if (LAID.size >= LAID_MAX) LAID.clear();
  LAID.set(key, topology);
  return topology;
}

function lay(shape: Shape): Topology {
  const engines: EngineSpec[] = [];
  const actors: ActorSpec[] = [{ actor: PROXY, name: 'proxy', engine: -1, tpRank: -1 }];
  const add = (name: string, engine: EngineId, tpRank: number): ActorId => {
    actors.push({ actor: actors.length, name, engine, tpRank });
    return actors.length - 1;
  };
  const addInstances = (role: Role, count: number, dpSize: number, tpSize: number): void => {
    for (let index = 0; index < count * dpSize; index++) {
      const instance = Math.trunc(index / dpSize);
      const dpRank = index % dpSize;
      const engine = engines.length;
      const name = `${role === 'prefill' ? 'P' : 'D'}${instance}${dpSize > 1 ? `/${dpRank}` : ''}`;
      const scheduler = add(name, engine, -1);
      const ranks = Array.from({ length: tpSize }, (_, tpRank) => add(`${name}.r${tpRank}`, engine, tpRank));
      engines.push({ engine, role, instance, dpRank, dpSize, scheduler, ranks });
    }
  };
  addInstances('prefill', shape.prefillInstances, shape.prefillDp, shape.prefillTp);
  addInstances('decode', shape.decodeInstances, shape.decodeDp, shape.decodeTp);
  return { mode: shape.mode, engines, actors };
}
