/** How chunking cuts a transfer (mori-io.md A7). All figures are bytes or counts; nothing here is rounded by floats. */

export interface ChunkRules {
  readonly chunkBytes: number;
  /** Soft: the largest message of a NIC beats it. */
  readonly maxChunks: number;
}

export interface ChunkGeometry {
  /** What the rules ask for. */
  readonly wanted: number;
  /** Bytes of one chunk but the last. */
  readonly target: number;
  /** What one scatter-gather entry of that length is cut into; may be below `wanted`. */
  readonly count: number;
}

export function chunkGeometry(totalBytes: number, rules: ChunkRules, maxMessageBytes: number): ChunkGeometry {
  const { chunkBytes, maxChunks } = rules;
  const whole = totalBytes <= chunkBytes || chunkBytes === 0;
  const soft = whole ? 1 : Math.min(ceilDiv(totalBytes, chunkBytes), maxChunks);
  const wanted = Math.max(soft, ceilDiv(totalBytes, maxMessageBytes), 1);
  const target = ceilDiv(totalBytes, wanted);
  return { wanted, target, count: target === 0 ? 0 : ceilDiv(totalBytes, target) };
}

/** A stretch of local memory: one scatter-gather entry of a work request. */
export interface Piece {
  readonly offset: number;
  readonly bytes: number;
}

/** Cuts a scatter-gather list. A piece never crosses an entry's end; the target goes on across it. */
export function cut(entries: readonly Piece[], rules: ChunkRules, maxMessageBytes: number): Piece[] {
  const totalBytes = entries.reduce((sum, entry) => sum + entry.bytes, 0);
  const { target } = chunkGeometry(totalBytes, rules, maxMessageBytes);
  const pieces: Piece[] = [];
  let targetLeft = target;
  for (const entry of entries) {
    for (let done = 0; done < entry.bytes; ) {
      const bytes = Math.min(targetLeft, entry.bytes - done, maxMessageBytes);
      pieces.push({ offset: entry.offset + done, bytes });
      done += bytes;
      targetLeft = targetLeft === bytes ? target : targetLeft - bytes;
    }
  }
  return pieces;
}

export function ceilDiv(value: number, by: number): number {
  return Math.floor((value - 1) / by) + 1;
}
