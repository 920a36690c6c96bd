import { UsageError } from '../base/failure.ts';
import { describeValue } from '../base/thrown.ts';

/** One line of a request trace in Mooncake's format. */
export interface TracedRequest {
  readonly timestampMillis: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** One id for each 512 tokens of the prompt; equal leading ids mean an equal prefix. */
  readonly hashIds: readonly number[];
}

export const HASH_BLOCK_TOKENS = 512;
/** Bounds that keep a run within memory; far above what serving systems take. */
const TOKENS_MAX = 4_000_000;
export const TRACE_REQUESTS_MAX = 200_000;

/** @throws UsageError TRACE-LINE or TRACE-EMPTY; `where` is the file's name, the text says the line. */
export function readTrace(text: string, where: string): TracedRequest[] {
  const requests: TracedRequest[] = [];
  let number = 0;
  for (const line of linesOf(text)) {
    number++;
    if (line.trim() === '') continue;
    const place = `${where}:${number}`;
    if (requests.length === TRACE_REQUESTS_MAX)
      throw new UsageError('TRACE-LINE', `${place}: more than ${TRACE_REQUESTS_MAX} requests; cut the trace`);
    const request = readLine(line, place);
    const before = requests.at(-1);
    if (before !== undefined && request.timestampMillis < before.timestampMillis) {
      throw new UsageError(
        'TRACE-LINE',
        `${place}: timestamp ${request.timestampMillis} is before that of the line above, ${before.timestampMillis}; sort the trace by time`,
      );
    }
    requests.push(request);
  }
  if (requests.length === 0) throw new UsageError('TRACE-EMPTY', `${where}: there is no request in it`);
  return requests;
}

/** One after the other: a list of them all would take many times the room of a text that is mostly line breaks. */
function* linesOf(text: string): Generator<string> {
  for (let from = 0; from <= text.length; ) {
    const end = text.indexOf('\n', from);
    const to = end < 0 ? text.length : end;
    yield text.slice(from, to);
    from = to + 1;
  }
}

function readLine(line: string, where: string): TracedRequest {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new UsageError('TRACE-LINE', `${where}: not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError('TRACE-LINE', `${where}: must be a JSON object, one for each line`);
  const fields = value as Record<string, unknown>;
  const timestampMillis = readNumber(fields, 'timestamp', 0, Number.MAX_SAFE_INTEGER / 1000, where);
  const inputTokens = readNumber(fields, 'input_length', 1, TOKENS_MAX, where);
  const outputTokens = readNumber(fields, 'output_length', 1, TOKENS_MAX, where);
  const hashIds = fields['hash_ids'];
  const fine = Array.isArray(hashIds) && hashIds.every((id) => Number.isSafeInteger(id) && id >= 0);
  if (!fine) throw new UsageError('TRACE-LINE', `${where}: hash_ids must be a list of integers from 0 up`);
  const wanted = Math.ceil(inputTokens / HASH_BLOCK_TOKENS);
  if (hashIds.length !== wanted)
    throw new UsageError(
      'TRACE-LINE',
      `${where}: hash_ids has ${hashIds.length} entries, ${inputTokens} tokens need ${wanted} (one for each ${HASH_BLOCK_TOKENS})`,
    );
  return { timestampMillis, inputTokens, outputTokens, hashIds };
}

function readNumber(
  fields: Record<string, unknown>,
  name: string,
  least: number,
  most: number,
  where: string,
): number {
  const value = fields[name];
  const isInteger =
    Number.isSafeInteger(value) ||
    (name === 'timestamp' && typeof value === 'number' && Number.isFinite(value));
  if (!isInteger || (value as number) < least || (value as number) > most) {
    throw new UsageError(
      'TRACE-LINE',
      `${where}: ${name} must be an integer from ${least} to ${Math.floor(most)}, not ${describeValue(value)}`,
    );
  }
  return value as number;
}
