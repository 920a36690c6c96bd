/**
 * Rows of a transfer, triples (local offset, remote offset, bytes), in the order of their local offsets, ties as they
 * came, and each joined to the row before it when it continues it on both sides. Nothing is checked: rows that overlap
 * stay apart.
 */
export function mergeRows(rows: readonly number[]): number[] {
  const merged: number[] = [];
  for (const at of localOrder(rows)) {
    const last = merged.length - 3;
    const bytes = rows[at + 2]!;
    const isNext =
      last >= 0 &&
      merged[last]! + merged[last + 2]! === rows[at] &&
      merged[last + 1]! + merged[last + 2]! === rows[at + 1];
    if (isNext) merged[last + 2]! += bytes;
    else merged.push(rows[at]!, rows[at + 1]!, bytes);
  }
  return merged;
}

/** Indices of the rows' first words. The sort is stable, as of ES2019. */
function localOrder(rows: readonly number[]): number[] {
  const order: number[] = [];
  let sorted = true;
  for (let at = 0; at < rows.length; at += 3) {
    sorted &&= at === 0 || rows[at - 3]! <= rows[at]!;
    order.push(at);
  }
  return sorted ? order : order.sort((a, b) => rows[a]! - rows[b]!);
}
