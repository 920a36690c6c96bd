import { spawnSync } from 'node:child_process';
import { UsageError } from '../base/failure.ts';

/** Which Python runs guests, and what it lacks. */

export interface PythonHealth {
  readonly python: string;
  /** Null when it can run guests. */
  readonly reason: string | null;
  readonly version: string | null;
  readonly greenlet: string | null;
  /** What to do when it cannot. */
  readonly remedy: string;
}

export const PYTHON_VARIABLE = 'MORIARTY_PYTHON';

const PROBE = `
import json, sys
told = {"version": ".".join(map(str, sys.version_info[:3])), "isOld": sys.version_info < (3, 10), "greenlet": None}
try:
    import greenlet
    told["greenlet"] = greenlet.__version__
except ImportError:
    pass
print(json.dumps(told))
`;
const PROBE_MILLIS_MAX = 20_000;

interface Probed {
  readonly version: string;
  readonly isOld: boolean;
  readonly greenlet: string | null;
}

/** The first that can run guests, of the one that is named, or else of the usual ones; else what the first one lacks. */
export function findPython(named: string | undefined): PythonHealth {
  const asked = named ?? process.env[PYTHON_VARIABLE];
  const candidates = asked === undefined ? ['python3', '/usr/bin/python3'] : [asked];
  const found = candidates.map(examinePython);
  return (
    found.find(({ reason }) => reason === null) ?? found.find(({ version }) => version !== null) ?? found[0]!
  );
}

/** @throws UsageError GUEST-PYTHON with the command that installs what is missing */
export function requirePython(named: string | undefined): string {
  const { python, reason, remedy } = findPython(named);
  if (reason === null) return python;
  throw new UsageError('GUEST-PYTHON', `${python} cannot run guests: ${reason}. ${remedy}`);
}

function examinePython(python: string): PythonHealth {
  const { status, stdout, error } = spawnSync(python, ['-s', '-c', PROBE], {
    encoding: 'utf8',
    timeout: PROBE_MILLIS_MAX,
  });
  const none = { python, version: null, greenlet: null };
  if (error !== undefined)
    return {
      ...none,
      reason: error.message,
      remedy: 'Install Python: apt-get install -y python3 python3-greenlet',
    };
  const probed = status === 0 ? readProbe(stdout) : null;
  if (probed === null)
    return { ...none, reason: 'it does not answer as Python does', remedy: `Name another one with --python` };
  const { version, isOld, greenlet } = probed;
  const health = { python, version, greenlet };
  if (isOld)
    return {
      ...health,
      reason: `it is ${version}, 3.10 is needed`,
      remedy: 'Name a later one with --python',
    };
  if (greenlet === null) return { ...health, reason: 'it has no greenlet', remedy: remedyOf(python) };
  return { ...health, reason: null, remedy: '' };
}

function remedyOf(python: string): string {
  return python === '/usr/bin/python3'
    ? 'Install it: apt-get install -y python3-greenlet'
    : `Install it: ${python} -m pip install greenlet, or on Debian apt-get install -y python3-greenlet for /usr/bin/python3`;
}

function readProbe(text: string): Probed | null {
  try {
    const { version, isOld, greenlet } = JSON.parse(text) as Record<string, unknown>;
    if (typeof version !== 'string' || typeof isOld !== 'boolean') return null;
    return { version, isOld, greenlet: typeof greenlet === 'string' ? greenlet : null };
  } catch {
    return null;
  }
}
