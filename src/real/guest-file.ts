import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { z } from 'zod';
import { UsageError } from '../base/failure.ts';
import { describeThrown } from '../base/thrown.ts';

/** A guest's description: which files, which classes, which hooks. docs/GUESTS.md tells each field. */

const identifier = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of Python');
const classPath = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*$/, "must be 'module:Class'");

const DESCRIPTION = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9-]{0,59}$/, 'must be small letters, digits and dashes'),
  /** The guest's own modules: name to path, from the description's folder. */
  modules: z.record(identifier, z.string().min(1).max(400)),
  scheduler: classPath,
  worker: classPath,
  /** Hooks that the classes call otherwise: ours to theirs. */
  hooks: z.record(identifier, identifier).default({}),
  /** Fields of a scenario that differ from the mix for guests. */
  scenario: z.record(z.string(), z.unknown()).default({}),
});

type Described = z.infer<typeof DESCRIPTION>;

export interface GuestDescription extends Described {
  /** Of the description itself, as it was given. */
  readonly path: string;
  /** Where each module's file lies. */
  readonly files: { readonly [module: string]: string };
  /** The first 64 bits of the SHA-256 of the description and all its modules, as 16 hex digits. */
  readonly hash: string;
}

const BYTES_MAX = 1 << 20;
const TOO_MANY = Buffer.alloc(0);

/** @throws UsageError GUEST-FILE when it or a module cannot be read, GUEST-FORM with the path of what is wrong in it */
export function readGuestFile(path: string): GuestDescription {
  const bytes = bytesOf(path, 'the guest description');
  let told: unknown;
  try {
    told = JSON.parse(bytes.toString('utf8'));
  } catch (error) {
    throw new UsageError('GUEST-FILE', `${path} is not JSON: ${describeThrown(error)}`);
  }
  const parsed = DESCRIPTION.safeParse(told);
  if (!parsed.success) {
    const { path: field, message } = parsed.error.issues[0]!;
    throw new UsageError('GUEST-FORM', `${path}: ${field.join('.') || 'it'}: ${message}`);
  }
  const described = parsed.data;
  for (const side of ['scheduler', 'worker'] as const) {
    const [module] = described[side].split(':');
    if (!Object.hasOwn(described.modules, module!))
      throw new UsageError('GUEST-FORM', `${path}: ${side}: ${module} is not among the modules`);
  }
  const folder = dirname(resolve(path));
  const files = Object.entries(described.modules).map(
    ([name, file]) => [name, resolve(folder, file)] as const,
  );
  const digest = createHash('sha256').update(bytes);
  for (const [name, file] of files) digest.update(bytesOf(file, `module ${name} of ${path}`));
  return {
    ...described,
    path,
    files: Object.fromEntries(files.map(([name, file]) => [name, shown(file)])),
    hash: digest.digest('hex').slice(0, 16),
  };
}

function bytesOf(path: string, what: string): Buffer {
  let bytes: Buffer;
  try {
    bytes = statSync(path).size > BYTES_MAX ? TOO_MANY : readFileSync(path);
  } catch (error) {
    throw new UsageError('GUEST-FILE', `${what}: ${path}: ${describeThrown(error)}`);
  }
  if (bytes === TOO_MANY)
    throw new UsageError('GUEST-FILE', `${what}: ${path}: more than ${BYTES_MAX} bytes`);
  return bytes;
}

/** As a person would write it: what is below the working folder without the way there. */
function shown(path: string): string {
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? path : near;
}
