import type { Connector } from '../connector/plug.ts';
import type { NicFaultName } from '../faults/nic-faults.ts';
import type { Fidelity } from '../io/engine/quirks.ts';
import type { Fabric } from '../io/fabric.ts';
import type { NicTimes } from '../io/profiles.ts';
import type { Violation } from '../oracle/verdict.ts';
import type { ChoicePolicy } from '../proxy/choose.ts';
import type { RunRecord } from '../record/record.ts';
import type { Note, Wait } from '../wire/machine.ts';
import type { EngineLimits, Grain } from './cluster.ts';
import type { Profile, Setup } from './draws.ts';
import type { WorldMemory } from './memory.ts';
import type { NetworkProfile } from './network.ts';
import type { ReferencedPrompt } from './prompts.ts';
import type { Tape } from './tape.ts';

/** Everything a run is made from. Two runs with equal specs are equal to the last byte. */
export interface RunSpec {
  readonly setup: Setup;
  /** Puts the prompts of `setup.requests` into the run's memory, in order. */
  readonly layPrompts: () => ReferencedPrompt[];
  readonly limits: EngineLimits;
  readonly grain: Grain;
  readonly network: NetworkProfile;
  readonly nic: NicTimes;
  /** Of the MoRI-IO engine on each rank. */
  readonly fidelity: Fidelity;
  readonly fabric: Fabric;
  readonly connector: Connector;
  readonly policy: ChoicePolicy;
  readonly tape: Tape;
  /** True when the tape is a list: every draw is asked for, whatever the profile. */
  readonly replaying: boolean;
  readonly profile: Profile;
  readonly nicFaults: readonly NicFaultName[];
  /** Kinds of stray bytes that may come: a prefix of STRAY_KINDS. */
  readonly strayKinds: number;
  readonly memory: WorldMemory;
  readonly record: boolean;
  readonly stepsMax: number;
  readonly microsMax: number;
  readonly observer?: RunObserver;
}

/** Measures a run without a part in it. */
export interface RunObserver {
  /** All is set up, the first event comes next. */
  begins?(): void;
  note(atMicros: number, note: Note): void;
  /** Bytes of simulated memory that a batch moved. */
  moved(bytes: number): void;
}

export interface RunResult {
  readonly steps: number;
  readonly atMicros: number;
  /** 64 bits over every event and effect, as 16 hex digits. */
  readonly digest: string;
  readonly violation: Violation | null;
  /** Who waits for whom, when the run hangs; else empty. */
  readonly waits: readonly Wait[];
  readonly goals: ReadonlyMap<string, number>;
  /** KV blocks still held when nothing was left to happen, over all engines that are up. */
  readonly blocksLeft: number;
  readonly record: RunRecord;
}
