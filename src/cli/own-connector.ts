import { isRecord } from '../base/checks.ts';
import { UsageError } from '../base/failure.ts';
import { describeThrown, describeValue } from '../base/thrown.ts';
import type { Connector } from '../connector/plug.ts';
import { readScenario } from '../explore/scenario-file.ts';
import { loadModule } from '../node/user-module.ts';
import { type ChoicePolicy, IN_TURN } from '../proxy/choose.ts';
import type { Scenario } from '../sim/scenario.ts';
import { SHIPPED } from '../zoo/shipped.ts';
import type { Parts } from '../zoo/specimen.ts';

/**
 * A connector of the user's own, from a module: its default export is the connector, or a function that makes one for each
 * run; `policy` and `scenario` may be exported besides.
 */
export interface OwnConnector {
  readonly parts: () => Parts;
  /** What it wants to be attacked with: changes to the default mix. */
  readonly scenario: Scenario;
}

const HOOKS = ['createScheduler', 'createWorker'] as const;

/** @throws UsageError CONNECTOR-... and SCENARIO-FORM, each naming the file and what is wrong in it. */
export async function loadOwnConnector(path: string): Promise<OwnConnector> {
  const { ref, exports } = await loadModule(path);
  const { default: connector, policy = IN_TURN } = exports;
  if (connector === undefined)
    throw new UsageError(
      'CONNECTOR-EXPORT',
      `${path} has no default export: export default the connector, or a function that makes one`,
    );
  const make = typeof connector === 'function' ? (connector as () => unknown) : () => connector;
  const parts = (): Parts => ({
    connector: checkedConnector(path, make),
    policy: policy as ChoicePolicy,
    module: ref,
  });
  // Once before anything runs, so that what is wrong is told as the mistake in a file that it is.
  const { name } = parts().connector;
  checkPolicy(path, policy);
  return { parts, scenario: scenarioOf(path, name, exports['scenario']) };
}

function checkedConnector(path: string, make: () => unknown): Connector {
  let made: unknown;
  try {
    made = make();
  } catch (thrown) {
    throw new UsageError('CONNECTOR-EXPORT', `${path}: its default export threw ${describeThrown(thrown)}`);
  }
  if (!isRecord(made))
    throw new UsageError(
      'CONNECTOR-EXPORT',
      `${path}: the connector is ${describeValue(made)}, it must be an object with name, ${HOOKS.join(' and ')}`,
    );
  if (typeof made['name'] !== 'string' || made['name'] === '' || made['name'].length > NAME_CHARACTERS_MAX)
    throw new UsageError(
      'CONNECTOR-EXPORT',
      `${path}: name of the connector is ${describeValue(made['name'])}, it must be a text of at most ${NAME_CHARACTERS_MAX} characters`,
    );
  for (const hook of HOOKS) refuseHook(path, `${hook} of the connector`, made[hook]);
  return made as unknown as Connector;
}

const NAME_CHARACTERS_MAX = 60;

function checkPolicy(path: string, policy: unknown): void {
  if (!isRecord(policy))
    throw new UsageError(
      'CONNECTOR-EXPORT',
      `${path}: policy is ${describeValue(policy)}, it must be an object`,
    );
  for (const hook of ['create', 'choose']) refuseHook(path, `${hook} of the policy`, policy[hook]);
}

function refuseHook(path: string, what: string, hook: unknown): void {
  if (typeof hook === 'function') return;
  throw new UsageError(
    'CONNECTOR-EXPORT',
    `${path}: ${what} is ${describeValue(hook)}, it must be a function`,
  );
}

/** The default mix with the module's changes; its name tells that it is another one. */
function scenarioOf(path: string, name: string, changes: unknown): Scenario {
  if (changes === undefined) return SHIPPED.scenario;
  if (!isRecord(changes))
    throw new UsageError(
      'CONNECTOR-EXPORT',
      `${path}: scenario is ${describeValue(changes)}, it must be an object`,
    );
  const own = { ...SHIPPED.scenario, name: `${name}-mix`, ...changes, connector: SHIPPED.name };
  return readScenario(own, `${path}: scenario`);
}
