import type { SideDifference } from './workload.ts';

/** One difference in words: which side, what kind, whose, where, and which byte was to be there. */
export function tellDifference(difference: SideDifference): string {
  const { kind, at, count, expected, actual, from, code, batch, bytes } = difference;
  const whose = `${difference.side}: ${kind}: ${ownerOf(difference)}`;
  if (code !== null) return `${whose} ended with status ${code}`;
  if (kind === 'no completion') return whose;
  const first = batch < 0 ? `offset ${at} of the region` : placeOf(at, bytes);
  const moved = from === null ? '' : `, which lies at offset ${from} of the source`;
  return `${whose}: ${count} bytes wrong, the first at ${first}: expected ${hex(expected)}, found ${hex(actual)}${moved}`;
}

function ownerOf(difference: SideDifference): string {
  const { batch, workRequest, workRequests, operation, queuePair, local, remote, bytes, pace } = difference;
  if (batch < 0) return `in no work request (a region that a ${operation} writes to, batches posted ${pace})`;
  const chain = `batch ${batch} (${operation}, queue pair ${queuePair}, posted ${pace})`;
  if (workRequest < 0) return `${chain} of ${workRequests} work requests`;
  return `${chain}, work request ${workRequest} of ${workRequests}, ${bytes} bytes from local ${local} and remote ${remote}`;
}

function placeOf(at: number, bytes: number): string {
  if (at < 0) return `${-at} before its first byte`;
  return at < bytes ? `its byte ${at}` : `${at - bytes + 1} behind its last byte`;
}

function hex(byte: number): string {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}
