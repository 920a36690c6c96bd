/** Arbitraries of scenarios, seeds and tapes, for those who have fast-check. */
export * from './explore/arbitraries.ts';
