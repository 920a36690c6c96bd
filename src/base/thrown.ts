/** What was thrown, as text. Whatever it is: nothing here runs code of the thrown thing without a net. */

/** Frames that a person needs to find the place. */
const FRAMES_MAX = 8;
const TEXT_MAX = 400;

/** `TypeError: x is not a function`; for what is no error at all, what it is: `null`, `the text "x"`, `an object {}`. */
export function describeThrown(thrown: unknown): string {
  if (!isError(thrown)) return describeValue(thrown);
  const name = lineOf(textOf(() => thrown.name));
  const message = lineOf(textOf(() => thrown.message));
  if (name === '' || name === 'Error') return message === '' ? 'an Error without a message' : message;
  return message === '' ? name : `${name}: ${message}`;
}

/** A value in a few words. */
export function describeValue(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return `the text ${cut(JSON.stringify(value.slice(0, TEXT_MAX)))}`;
    case 'function':
      return 'a function';
    case 'symbol':
    case 'bigint':
      return `the ${typeof value} ${cut(String(value))}`;
    case 'object':
      return value === null ? 'null' : `${isArray(value) ? 'a list' : 'an object'} ${shown(value)}`.trim();
    default:
      return String(value);
  }
}

/** The first lines `at ...` of an error's stack, innermost first; none when it has no stack of the usual form. */
export function stackHead(thrown: unknown, linesMax = FRAMES_MAX): string[] {
  if (!isError(thrown)) return [];
  const stack = textOf(() => thrown.stack);
  const lines = stack.split('\n').map((line) => line.trim());
  return lines.filter((line) => line.startsWith('at ')).slice(0, linesMax);
}

/** Where a guest's own code stands in a stack: within the call that `border` names, outside the folder `ours`. */
export interface GuestCode {
  /** The function through which all of its code is called. */
  readonly border: string;
  /** A part of the path of every file of ours. */
  readonly ours: string;
}

/**
 * The frames of a guest's own code, innermost first, as `function (file:line:column)`. Ours and those of Node are left out,
 * unless there is nothing else.
 */
export function guestFrames(thrown: unknown, { border, ours }: GuestCode): string[] {
  const lines = stackHead(thrown, Number.POSITIVE_INFINITY);
  const end = lines.findIndex((line) => line.includes(border));
  const within = (end < 0 ? lines : lines.slice(0, end)).filter(
    (line) => !/[( ]node:|\(<anonymous>\)$/.test(line),
  );
  const own = within.filter((line) => !line.includes(ours));
  return (own.length > 0 ? own : within).slice(0, FRAMES_MAX).map(showFrame);
}

function showFrame(line: string): string {
  return lineOf(line.replace(/^at /, '').replace('file://', ''));
}

/** One of another realm is one too. */
function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error || Object.prototype.toString.call(thrown) === '[object Error]';
  } catch {
    return false;
  }
}

function isArray(value: unknown): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** A property that its owner may compute, and fail to. */
function textOf(read: () => unknown): string {
  try {
    const text = read();
    return typeof text === 'string' ? text : '';
  } catch {
    return '';
  }
}

/** In one line, and not too long a one. */
function lineOf(text: string): string {
  const printable = Array.from(text, (character) => (isControl(character) ? ' ' : character));
  return cut(printable.join('').replace(/\s+/g, ' ').trim());
}

/** What would move a terminal's cursor or change its colours. */
function isControl(character: string): boolean {
  const code = character.charCodeAt(0);
  return code < 32 || (code >= 127 && code < 160);
}

function shown(value: object): string {
  try {
    return cut(JSON.stringify(value) ?? '');
  } catch {
    return '';
  }
}

function cut(text: string, charactersMax = TEXT_MAX): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax)}...` : text;
}
