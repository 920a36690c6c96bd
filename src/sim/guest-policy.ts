import { isIndex } from '../base/checks.ts';
import { describeValue } from '../base/thrown.ts';
import { type EngineSpec, PROXY, type Role, type Topology } from '../base/topology.ts';
import { I6 } from '../oracle/invariants/i6-routing.ts';
import { I10 } from '../oracle/invariants/i10-honest-report.ts';
import type { ChoicePolicy, ChoiceState } from '../proxy/choose.ts';
import { blame, enterGuest, type Guest, type GuestHost, newGuest } from './guest.ts';

/** The proxy's policy under attack, behind the border: it must choose an engine of the role that is up. */
export function guardPolicy(policy: ChoicePolicy, host: GuestHost): ChoicePolicy {
  const guest = newGuest(host, PROXY, `policy ${JSON.stringify(policy.name ?? 'without a name')}`);
  const { topology } = host.bounds;
  return {
    ...policy,
    create(engines, role) {
      const inner = enterGuest(guest, policy, 'create', [engines, role]) as ChoiceState;
      // A handle of ours: a policy may keep its state where it likes, and one for both roles.
      const handle: Handle = { inner, role };
      return handle as unknown as ChoiceState;
    },
    choose(handle, down) {
      const { inner, role } = handle as unknown as Handle;
      const chosen = enterGuest(guest, policy, 'choose', [inner, new Set(down)]);
      return engineOf(guest, topology, { chosen, down, role });
    },
  };
}

/** What a policy made, and for whom. */
interface Handle {
  readonly inner: ChoiceState;
  readonly role: Role;
}

interface Choice {
  readonly chosen: unknown;
  readonly down: ReadonlySet<number>;
  readonly role: Role;
}

/** The engine that was chosen. @throws GuestFault when it is none, plays another role, or is down */
function engineOf(guest: Guest, topology: Topology, { chosen, down, role }: Choice): EngineSpec | null {
  const up = topology.engines.filter((spec) => spec.role === role && !down.has(spec.engine));
  if (chosen === null) {
    if (down.size > 0 || up.length === 0) return null;
    return blame(guest, I10.breaches['chose-none'], { role, count: up.length }, null);
  }
  const id = idOf(chosen);
  const spec = isIndex(id) ? topology.engines[id] : undefined;
  if (spec === undefined)
    return blame(guest, I6.breaches['chose-no-engine'], { value: describeValue(chosen), role }, null);
  const { engine } = spec;
  if (spec.role !== role)
    return blame(guest, I6.breaches['chose-wrong-role'], { engine, chosenRole: spec.role, role }, null);
  if (down.has(engine)) return blame(guest, I6.breaches['chose-engine-down'], { role, engine }, null);
  return spec;
}

function idOf(chosen: unknown): unknown {
  try {
    return (chosen as EngineSpec | undefined)?.engine;
  } catch {
    return undefined;
  }
}
