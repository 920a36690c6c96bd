import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { UsageError } from '../base/failure.ts';
import { pause } from './pause.ts';

/** The only way in which a command reads or writes a file that somebody named. */

/** Longest text of each kind that is read; what the readers take at most is far below. */
export const TEXT_BYTES_MAX = {
  scenario: 1 << 20,
  model: 16 << 20,
  replay: 16 << 20,
  trace: 256 << 20,
} as const;

export type TextKind = keyof typeof TEXT_BYTES_MAX;

/** Other names of standard input, which as files could only be opened once more. */
const STANDARD_INPUT: readonly string[] = ['-', '/dev/stdin', '/dev/fd/0', '/proc/self/fd/0'];

const FIRST_BYTES = 1 << 16;
const PAUSE_MILLIS = 10;

/**
 * The text of a regular file, or of standard input under the name `-`. A byte order mark is taken off; UTF-16 is read where one
 * says so.
 *
 * @throws UsageError FILE when it is missing, is no file, cannot be read, is too long, or is no text.
 */
export function readText(path: string, kind: TextKind): string {
  const most = TEXT_BYTES_MAX[kind];
  if (STANDARD_INPUT.includes(path)) return decodeText(readAll(0, 'standard input', most), 'standard input');
  const descriptor = openRegular(path);
  try {
    return decodeText(readAll(descriptor, path, most), path);
  } finally {
    closeSync(descriptor);
  }
}

/** Without waiting for whoever writes into a pipe; looked at again when open, since a name can be given to another file. */
function openRegular(path: string): number {
  const descriptor = trying(path, 'read', () => {
    refuseSpecial(statSync(path), path);
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  });
  try {
    refuseSpecial(fstatSync(descriptor), path);
    return descriptor;
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

function refuseSpecial(stats: Stats, path: string): void {
  if (!stats.isFile())
    throw new UsageError(
      'FILE',
      `${path}: cannot be read: it is ${kindOf(stats)}; only regular files are read, and standard input as -`,
    );
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

/** The size that a file system tells is no bound: files grow, and those of /proc say 0. */
function readAll(descriptor: number, path: string, most: number): Buffer {
  let room = Buffer.allocUnsafe(FIRST_BYTES);
  for (let bytes = 0; ; ) {
    const got = readSome(descriptor, path, room.subarray(bytes));
    if (got === 0) return room.subarray(0, bytes);
    bytes += got;
    if (bytes > most) throw new UsageError('FILE', `${path}: is longer than ${most} bytes, no more are read`);
    if (bytes === room.length) room = Buffer.concat([room], 2 * bytes);
  }
}

/** Waits for standard input that somebody made non-blocking. */
function readSome(descriptor: number, path: string, room: Buffer): number {
  for (;;) {
    try {
      return readSync(descriptor, room, 0, room.length, null);
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EOF') return 0;
      if (descriptor !== 0 || code !== 'EAGAIN')
        throw new UsageError('FILE', `${path}: cannot be read: ${message}`);
      pause(PAUSE_MILLIS);
    }
  }
}

function decodeText(bytes: Buffer, path: string): string {
  const mark = bytes.length >= 2 ? bytes.readUInt16BE(0) : 0;
  const encoding = mark === 0xfffe ? 'utf-16le' : mark === 0xfeff ? 'utf-16be' : 'utf-8';
  const text = new TextDecoder(encoding).decode(bytes);
  const zero = text.indexOf('\0');
  if (zero >= 0) throw new UsageError('FILE', `${path}: is no text: character ${zero} is NUL`);
  return text;
}

/** Writes a file whole or not at all; a link stays one. @throws UsageError FILE */
export function writeWhole(path: string, text: string): void {
  let draft = '';
  try {
    trying(path, 'written', () => {
      if (path === '-')
        throw new UsageError('FILE', 'a file is written under a name, not to standard output');
      if (!existsSync(path) && isLink(path))
        throw new UsageError('FILE', `${path}: cannot be written: it is a link to what is not there`);
      const target = existsSync(path) ? realpathSync(path) : path;
      if (existsSync(target) && !statSync(target).isFile())
        throw new UsageError('FILE', `${path}: cannot be written: it is ${kindOf(statSync(target))}`);
      draft = `${target}.${process.pid}.tmp`;
      writeFileSync(draft, text, { flag: 'wx' });
      renameSync(draft, target);
    });
  } catch (error) {
    if (draft !== '') rmSync(draft, { force: true });
    throw error;
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function trying<T>(path: string, done: 'read' | 'written', work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError('FILE', `${path}: cannot be ${done}: ${(error as Error).message}`);
  }
}
