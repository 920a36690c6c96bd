import { runSeed } from '../../explore/run.ts';
import {
  type BackendHealth,
  examineLibfabric,
  examineMori,
  type HalfHealth,
  type LibfabricHealth,
} from '../../node/doctor.ts';
import { findPython, type PythonHealth } from '../../real/python.ts';
import { SHIPPED_MIX } from '../../zoo/shipped.ts';
import { commandOf } from '../command.ts';
import { checkMemory } from '../harness.ts';
import { JSON_OPTION } from '../options.ts';
import { EXIT, print, printJson } from '../output.ts';

interface WasmHealth {
  readonly whole: boolean;
  readonly reason: string | null;
  readonly node: string;
  /** Of a schedule that was run to know. */
  readonly digest: string | null;
}

export const command = commandOf<{ readonly json?: boolean }>({
  options: [JSON_OPTION],
  examples: [{ line: 'doctor', does: 'what each backend needs to build and to run, and what of it is here' }],
  run: (_, { json }) => doctor(json ?? false),
});

function doctor(json: boolean): number {
  const wasm = examineWasm();
  const libfabric = examineLibfabric();
  const mori = examineMori();
  const guests = findPython(undefined);
  if (json) printJson({ wasm, native: { libfabric, mori }, guests });
  else
    for (const line of [
      ...showWasm(wasm),
      ...showLibfabric(libfabric),
      ...showMori(mori),
      ...showGuests(guests),
    ])
      print(line);
  return wasm.whole ? EXIT.fine : EXIT.harness;
}

/** Loads the kernels and runs one schedule. */
function examineWasm(): WasmHealth {
  const node = process.version;
  try {
    const { result } = runSeed(checkMemory(), SHIPPED_MIX, 0);
    const whole = result.violation === null;
    const reason = whole ? null : `schedule 0 broke ${result.violation!.invariant}`;
    return { whole, reason, node, digest: result.digest };
  } catch (error) {
    return { whole: false, reason: (error as Error).message, node, digest: null };
  }
}

function showWasm({ whole, reason, node, digest }: WasmHealth): string[] {
  return [
    whole ? `wasm: whole (Node ${node}; schedule 0 has digest ${digest})` : `wasm: broken, because ${reason}`,
  ];
}

function showLibfabric(health: LibfabricHealth): string[] {
  const { available, reason, version, addon, builtAgainst, providers } = health;
  return [
    available
      ? `native: available, libfabric ${version} (addon built against ${builtAgainst}: ${addon})`
      : `native: not available, because ${reason}`,
    // Without the addon they would only say the same again.
    ...Object.entries(addon === null ? {} : providers).map(
      ([name, { works, reason }]) =>
        `  provider ${name}: ${works ? 'moves bytes' : `does not work: ${reason}`}`,
    ),
    ...showNeeds(health),
  ];
}

function showMori(health: HalfHealth): string[] {
  const { available, reason, version, addon } = health;
  return [
    available
      ? `native, MoRI-IO: available, moves bytes, MoRI-IO ${version} (addon: ${addon})`
      : `native, MoRI-IO: not available, because ${reason}`,
    ...showNeeds(health),
  ];
}

function showGuests({ python, reason, version, greenlet, remedy }: PythonHealth): string[] {
  return [
    reason === null
      ? `guests: available, Python ${version} with greenlet ${greenlet} (${python})`
      : `guests: not available, because ${python}: ${reason}. ${remedy}`,
  ];
}

function showNeeds({ needs }: BackendHealth): string[] {
  return needs.map(({ what, when, found, remedy }) => {
    const name = `  to ${when.padEnd(5)} ${what.padEnd(18)}`;
    return found === null ? `${name} missing: ${remedy}` : `${name} ${found}`;
  });
}
