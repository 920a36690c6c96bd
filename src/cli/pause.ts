const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4));

/** Stands still without using the processor. */
export function pause(millis: number): void {
  Atomics.wait(NEVER_WOKEN, 0, 0, millis);
}
