import { readScenario } from '../explore/scenario-file.ts';
import type { ModuleRef } from '../node/user-module.ts';
import { IN_TURN } from '../proxy/choose.ts';
import { SECONDS_MAX } from '../real/child.ts';
import { openGuest } from '../real/guest.ts';
import { readGuestFile } from '../real/guest-file.ts';
import { GUEST_CHANGES } from '../real/guest-scenario.ts';
import { requirePython } from '../real/python.ts';
import { SHIPPED } from '../zoo/shipped.ts';
import type { OptionRow } from './command.ts';
import type { OwnConnector } from './own-connector.ts';

/** A connector that lives in a Python process, from the file that describes it. */

export const PYTHON_OPTION: OptionRow = {
  flag: '--python <program>',
  text: 'of a guest: the interpreter, 3.10 or later with greenlet (default: the first usual one that has it)',
};

export function isGuestPath(word: string): boolean {
  return word.endsWith('.json');
}

/** @throws UsageError as readGuestFile does */
export function guestRef(path: string): ModuleRef {
  return { path, hash: readGuestFile(path).hash };
}

/** @throws UsageError GUEST-... and SCENARIO-FORM, each naming the file and what is wrong in it */
export function loadGuest(path: string, python?: string): OwnConnector {
  const description = readGuestFile(path);
  const { name, hash } = description;
  const base = { ...SHIPPED.scenario, ...GUEST_CHANGES, name: `${name}-mix` };
  const scenario = readScenario(
    { ...base, ...description.scenario, connector: SHIPPED.name },
    `${path}: scenario`,
  );
  const guest = openGuest(description, { python: requirePython(python), secondsMax: SECONDS_MAX });
  return {
    scenario,
    parts: () => ({ connector: guest.connectorOfRun(), policy: IN_TURN, module: { path, hash } }),
  };
}
