import { type ChoicePolicy, type ChoiceState, createChoice } from '../../proxy/choose.ts';
import type { FaultSet } from './faults.ts';

/**
 * How the first proxy chose: one counter of all requests, taken modulo the length of each list of instances, and a DP
 * rank of the chosen instance. It has no idea of an engine that is down.
 */

/** Fields of an instance's record in the first proxy's lists: type, addresses, ports, mode and sizes. */
const INSTANCE_FIELDS = 8;

/** One run's policy: both roles share the counter. */
export function asWrittenChoice(faults: FaultSet): ChoicePolicy {
  let requests = 0;
  let lastRole: 'prefill' | 'decode' = 'decode';

  /** The number of the request that is being placed: P is chosen first, and D goes with the P chosen before it. */
  const numberOf = (role: 'prefill' | 'decode'): number => {
    if (role === 'prefill' || lastRole === 'decode') requests++;
    lastRole = role;
    return requests - 1;
  };

  return {
    name: 'as written',
    claims: ['dp-ranks-take-turns'],
    create: createChoice,
    choose(state) {
      const [first] = state.instances;
      if (first === undefined) return null;
      const number = numberOf(first.engines[0]!.role);
      const instance = state.instances[number % state.instances.length]!;
      // F5: the number of fields of one record instead of the number of records.
      const turn = faults.has('F5') ? Math.trunc(number / INSTANCE_FIELDS) : instance.nextDpRank++;
      return instance.engines[dpRankOf(instance, turn, number, faults)]!;
    },
  };
}

/** F4: the argument is there, and the counter is used. */
function dpRankOf(
  instance: ChoiceState['instances'][number],
  turn: number,
  number: number,
  faults: FaultSet,
): number {
  const argument = faults.has('F4') ? number : turn;
  return argument % instance.engines.length;
}
