import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { IN_TURN } from '../../src/proxy/choose.ts';
import { type Guest, openGuest } from '../../src/real/guest.ts';
import { readGuestFile } from '../../src/real/guest-file.ts';
import { GUEST_CHANGES } from '../../src/real/guest-scenario.ts';
import type { Scenario } from '../../src/sim/scenario.ts';
import { SHIPPED_MIX } from '../../src/zoo/shipped.ts';
import type { Parts } from '../../src/zoo/specimen.ts';

/** What tests of Python guests share. */

export const GUEST_SCENARIO: Scenario = { ...SHIPPED_MIX, ...GUEST_CHANGES, name: 'guest-mix' };

export function openExample(file: string, python: string): Guest {
  return openGuest(readGuestFile(`examples/python-guest/${file}`), { python, secondsMax: 20 });
}

export function partsOf(guest: Guest): () => Parts {
  return () => ({ connector: guest.connectorOfRun(), policy: IN_TURN });
}

/** The description of a guest of one module, written somewhere. */
export function writeGuest(source: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'moriarty-test-guest-'));
  writeFileSync(join(folder, 'guest.py'), source);
  const described = {
    name: 'written',
    modules: { guest: 'guest.py' },
    scheduler: 'guest:Scheduler',
    worker: 'guest:Worker',
  };
  const path = join(folder, 'guest.json');
  writeFileSync(path, JSON.stringify(described));
  return path;
}

/** A program that stands where Python should. */
export function writeProgram(script: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'moriarty-test-python-')), 'python');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}
