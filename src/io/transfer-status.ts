import { failed, StatusCode, statusName } from './codes.ts';

/**
 * MoRI-IO's TransferStatus as plain data (mori-io.md A3). Nothing waits here: the functions that change a
 * status say whether upstream would wake those who wait, and the `wait...` functions say what a wait would
 * return by now.
 */
export interface TransferStatus {
  code: StatusCode;
  message: string;
}

/** A TransferStatus as its constructor leaves it: INIT, without text. */
export function createStatus(): TransferStatus {
  return { code: StatusCode.INIT, message: '' };
}

/** Canonical: equal states give equal lines. */
export function showStatus(status: TransferStatus): string {
  return `${statusName(status.code)} ${JSON.stringify(status.message)}`;
}

/**
 * Upstream's Update: sets code and text and wakes everyone, unless the status holds an error, which stays. A
 * success does not stay: a failed notification may still turn it into an error. Returns whether it woke
 * anyone.
 */
export function updateStatus(status: TransferStatus, code: StatusCode, message: string): boolean {
  if (failed(status.code)) return false;
  status.code = code;
  status.message = message;
  return true;
}

/**
 * Upstream's SetCode: stores always, an error or not, and leaves the text, so a reused status shows its old
 * one. Returns whether it woke anyone: INIT and IN_PROGRESS do not.
 */
export function setStatusCode(status: TransferStatus, code: StatusCode): boolean {
  status.code = code;
  return code !== StatusCode.INIT && code !== StatusCode.IN_PROGRESS;
}

/** WaitAll takes lists with holes, which it skips. */
export type StatusList = readonly (TransferStatus | null)[];

/**
 * WaitAll with 0 ms: the first code that is neither success nor running (INIT too), else running if any is.
 */
export function waitAllPoll(statuses: StatusList): StatusCode {
  const codes = codesOf(statuses);
  const bad = codes.find((code) => code !== StatusCode.SUCCESS && code !== StatusCode.IN_PROGRESS);
  if (bad !== undefined) return bad;
  return codes.includes(StatusCode.IN_PROGRESS) ? StatusCode.IN_PROGRESS : StatusCode.SUCCESS;
}

/**
 * WaitAll without a limit (negative ms): undefined while any entry runs, even after another has failed; then
 * the first code in list order that is not SUCCESS.
 */
export function waitAllOutcome(statuses: StatusList): StatusCode | undefined {
  const codes = codesOf(statuses);
  if (codes.includes(StatusCode.IN_PROGRESS)) return undefined;
  return firstOther(codes);
}

/**
 * WaitAll with a limit, at the moment its one shared deadline passes: entries are taken in order, so those
 * behind the first that still runs were never looked at, and a failure before it beats the timeout. That is
 * the first code that is not SUCCESS, IN_PROGRESS being one.
 */
export function waitAllAtDeadline(statuses: StatusList): StatusCode {
  return firstOther(codesOf(statuses));
}

function codesOf(statuses: StatusList): StatusCode[] {
  return statuses.filter((status) => status !== null).map((status) => status.code);
}

function firstOther(codes: readonly StatusCode[]): StatusCode {
  return codes.find((code) => code !== StatusCode.SUCCESS) ?? StatusCode.SUCCESS;
}
