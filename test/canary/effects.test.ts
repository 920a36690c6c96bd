import type { Topology } from '../../src/base/topology.ts';
import { TIMER } from '../../src/connector/shipped/timers.ts';
import { NO_HAZARDS } from '../../src/faults/hazards.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import { isNamed } from '../helpers/messages.ts';
import { type Canary, expectFound } from './canary.ts';
import { plantInBatches, plantInEffects, plantInMessages } from './plant.ts';

const TP_TWO: Scenario = { ...SHIPPED_MIX, prefillTp: [2], decodeTp: [2] };

/** The next TP rank of the same engine. */
function otherRank(topology: Topology, actor: number): number {
  const { engine, tpRank } = topology.actors[actor]!;
  const { ranks } = topology.engines[engine]!;
  return ranks[(tpRank + 1) % ranks.length]!;
}

/** Bugs in what the worker side sends, posts and arms. */
const CANARIES: readonly Canary[] = [
  {
    bug: 'grants go to a rank of another prefill instance',
    connector: plantInMessages((message, to, { topology }) => {
      if (!isNamed(message, 'grant')) return { to, message };
      const wrong = topology.engines.find(
        ({ role, engine }) => role === 'prefill' && engine !== topology.actors[to]!.engine,
      );
      return { to: wrong?.ranks[0] ?? to, message };
    }),
    found: ['I6'],
    seedsMax: 20,
  },
  {
    bug: 'a message goes to the wrong TP rank of the right engine',
    connector: plantInMessages((message, to, { topology }) => {
      if (!isNamed(message, 'seal') && !isNamed(message, 'grant')) return { to, message };
      return { to: otherRank(topology, to), message };
    }),
    scenario: TP_TWO,
    found: ['I6'],
    seedsMax: 20,
  },
  {
    bug: 'a batch goes to the wrong TP rank of the right engine',
    connector: plantInBatches((batch, { topology }) => ({
      ...batch,
      peer: otherRank(topology, batch.peer),
    })),
    scenario: TP_TWO,
    found: ['I6'],
    seedsMax: 20,
  },
  {
    bug: 'writes go to the first decode instance, whoever was chosen',
    connector: plantInBatches((batch, { topology }) => {
      const first = topology.engines.find(({ role }) => role === 'decode')!;
      return batch.operation === 'write' && first.ranks.length === 1
        ? { ...batch, peer: first.ranks[0]! }
        : batch;
    }),
    found: ['I6', 'I1'],
    seedsMax: 50,
  },
  {
    bug: 'claims and seals are never repeated',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.haulRetry) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 200,
  },
  {
    bug: 'grants and revokes are never repeated',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.leaseRetry) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 500,
  },
  {
    bug: 'neither a handshake nor a transfer has a time limit',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || (effect.timer !== TIMER.handshake && effect.timer !== TIMER.haulDeadline))
        pass(effect);
    }),
    found: ['I2', 'I3', 'I9'],
    seedsMax: 2000,
  },
  {
    bug: 'a lease has no end',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.leaseDeadline) pass(effect);
    }),
    found: ['I2', 'I3'],
    seedsMax: 1000,
  },
  {
    bug: 'early grants and claims never expire',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'arm' || effect.timer !== TIMER.early) pass(effect);
    }),
    found: ['I3'],
    seedsMax: 1000,
  },
  {
    bug: 'remote offsets are one cell too high',
    connector: plantInBatches((batch, { views }) => {
      const cellBytes = views[batch.layer]!.parts[0]!.bytes;
      return {
        ...batch,
        runs: batch.runs.map((value, index) => (index % 3 === 1 ? value + cellBytes : value)),
      };
    }),
    found: ['I4', 'I10', 'I1'],
    seedsMax: 20,
  },
  {
    bug: 'remote offsets are one block too low',
    connector: plantInBatches((batch, { views }) => {
      const { blockStride } = views[batch.layer]!.parts[0]!;
      return {
        ...batch,
        runs: batch.runs.map((value, index) => (index % 3 === 1 ? Math.max(0, value - blockStride) : value)),
      };
    }),
    found: ['I4', 'I10', 'I1'],
    seedsMax: 20,
  },
  {
    bug: 'the last run of every batch is lost',
    connector: plantInBatches((batch) =>
      batch.runs.length > 3 ? { ...batch, runs: batch.runs.slice(0, -3) } : batch,
    ),
    found: ['I4', 'I10'],
    seedsMax: 50,
  },
  {
    bug: 'a silent peer is not fenced before its blocks go back',
    connector: plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'fence') pass(effect);
    }),
    // A write that is very late, an owner whose revokes are lost or late too, and few blocks, soon given out again.
    scenario: {
      ...SHIPPED_MIX,
      mode: 'write',
      prefillInstances: 1,
      decodeInstances: 1,
      prefillTp: [1],
      decodeTp: [1],
      lookAhead: false,
      ordinaryRequests: false,
      promptTokensMax: 8,
      outputTokensMax: 2,
      blocksPerEngine: 4,
      requestsMax: 16,
      hazards: { ...NO_HAZARDS, aborts: true, drops: true, longDelays: true, crashes: true },
    },
    found: ['I1'],
    seedsMax: 2000,
  },
  {
    bug: 'a seal claims success whatever happened',
    connector: plantInMessages((message, to) => ({
      to,
      message: isNamed(message, 'seal') ? { ...message, ok: true } : message,
    })),
    found: ['I4', 'I10'],
    seedsMax: 300,
  },
];

expectFound(CANARIES);
