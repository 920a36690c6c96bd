/**
 * Replay lines within what people paste: a whole line of output, a log with colours and time stamps, a mail that wrapped and
 * quoted it. A line is a prefix and base64url text; where that text ends is known only from what it says.
 */

export interface PastedLine {
  /** Number of the form: 2 for `mor2.`. */
  readonly form: number;
  /** Line of the text in which it begins, from 1. */
  readonly row: number;
  /** The base64url characters after the prefix, and after them those of the words that follow. */
  readonly characters: string;
  /** Lengths of `characters` at which a word ends. */
  readonly wordEnds: readonly number[];
}

const START = /\bmor(\d{1,9})\./g;

/** Colours and titles of terminals (CSI, OSC and single-letter sequences), and characters without a width. */
const INVISIBLE = new RegExp(
  [
    String.raw`\u001b\[[0-?]*[ -/]*[@-~]`,
    String.raw`\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)`,
    String.raw`\u001b[@-Z\\-_]`,
    String.raw`[\u00ad\u200b-\u200d\u2060\ufeff]`,
  ].join('|'),
  'g',
);

const FIRST_WORD = /[\w-]*/y;

/**
 * The next word of a wrapped line: after a soft break of mail (`=`) or shell (`\`), blanks, and what mail or a log puts before a
 * line (`> `, `| `, a time stamp).
 */
const NEXT_WORD = /(?:[ \t]*[=\\])?\s+(?:[>|]\s*)*(?:\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s+)?([\w-]+)/y;

export function hasReplayLine(text: string): boolean {
  return text.replace(INVISIBLE, '').search(START) >= 0;
}

/** A log holds a few. */
export const PASTED_MAX = 1000;

/** The first ones of a text, in order: at most one more than PASTED_MAX. */
export function findPasted(text: string): PastedLine[] {
  const visible = text.replace(INVISIBLE, '');
  const lines: PastedLine[] = [];
  let row = 1;
  let counted = 0;
  for (const start of visible.matchAll(START)) {
    for (; counted < start.index; counted++) if (visible[counted] === '\n') row++;
    lines.push({ form: Number(start[1]), row, ...wordsFrom(visible, start.index + start[0].length) });
    if (lines.length > PASTED_MAX) break;
  }
  return lines;
}

function wordsFrom(text: string, from: number): Pick<PastedLine, 'characters' | 'wordEnds'> {
  FIRST_WORD.lastIndex = from;
  const [first = ''] = FIRST_WORD.exec(text) ?? [];
  const words = [first];
  const wordEnds = [first.length];
  NEXT_WORD.lastIndex = from + first.length;
  for (let match = NEXT_WORD.exec(text); match !== null; match = NEXT_WORD.exec(text)) {
    const word = match[1]!;
    words.push(word);
    wordEnds.push(wordEnds.at(-1)! + word.length);
  }
  return { characters: words.join(''), wordEnds };
}

const [QUOTE, BACKSLASH, OPEN, CLOSE] = [0x22, 0x5c, 0x7b, 0x7d];

/** Bytes of the JSON object that a text begins with; undefined when it is none, or does not end. */
export function objectLength(bytes: Uint8Array): number | undefined {
  if (bytes[0] !== OPEN) return undefined;
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) quoted = !quoted;
    else if (quoted && byte === BACKSLASH) at++;
    else if (!quoted && byte === OPEN) depth++;
    else if (!quoted && byte === CLOSE && --depth === 0) return at + 1;
  }
  return undefined;
}
