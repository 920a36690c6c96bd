import { findPython } from '../../src/real/python.ts';

/** What tests of Python guests share: where Python or greenlet is missing they are left out, with the reason in their name. */

export interface PythonHere {
  readonly python: string;
  readonly missing: boolean;
  /** For the title of a suite. */
  readonly note: string;
}

/** Set by .ci/run: there a missing greenlet is a failure. */
function isRequired(): boolean {
  return process.env['CI'] === 'true' && process.env['MORIARTY_GUESTS'] === 'required';
}

export function pythonHere(): PythonHere {
  const { python, reason, remedy } = findPython(undefined);
  if (reason === null) return { python, missing: false, note: '' };
  process.stderr.write(`Python guests: ${python}: ${reason}. ${remedy}\n`);
  return { python, missing: !isRequired(), note: ` (left out, because ${python}: ${reason})` };
}
