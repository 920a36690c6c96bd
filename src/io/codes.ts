/**
 * The numbers of MoRI-IO's enums (mori-io.md A1). They travel in descriptors and frames, so they are
 * upstream's own.
 */

/** How bytes move. TCP is named upstream but not implemented: creating that backend aborts the process. */
export const BackendType = { Unknown: 0, XGMI: 1, RDMA: 2, TCP: 3, FABRIC: 4 } as const;
export type BackendType = (typeof BackendType)[keyof typeof BackendType];

/** Where registered memory lies. */
export const MemoryLocationType = { Unknown: 0, CPU: 1, GPU: 2 } as const;
export type MemoryLocationType = (typeof MemoryLocationType)[keyof typeof MemoryLocationType];

/**
 * Outcome of a transfer. ERR_BEGIN is a mark in the number range that nothing sets; no code path sets
 * ERR_NOT_FOUND.
 */
export const StatusCode = {
  SUCCESS: 0,
  INIT: 1,
  IN_PROGRESS: 2,
  ERR_BEGIN: 10,
  ERR_INVALID_ARGS: 11,
  ERR_NOT_FOUND: 12,
  ERR_RDMA_OP: 13,
  ERR_BAD_STATE: 14,
  ERR_GPU_OP: 15,
} as const;
export type StatusCode = (typeof StatusCode)[keyof typeof StatusCode];
export type StatusName = keyof typeof StatusCode;

/** How the completion thread waits. EVENT spins as well, its timeout being 0 ms (mori-io.md 0.19). */
export const PollCqMode = { POLLING: 0, EVENT: 1 } as const;
export type PollCqMode = (typeof PollCqMode)[keyof typeof PollCqMode];

/** True beyond ERR_BEGIN; ERR_BEGIN itself is no failure (A1). */
export function failed(code: StatusCode): boolean {
  return code > StatusCode.ERR_BEGIN;
}

const STATUS_NAMES = new Map(
  (Object.keys(StatusCode) as StatusName[]).map((name) => [StatusCode[name], name] as const),
);

/** The upstream name of a code, as traces print it. */
export function statusName(code: StatusCode): StatusName {
  return STATUS_NAMES.get(code)!;
}
