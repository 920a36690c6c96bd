/** The MoRI-IO engine by itself, as a machine (docs/ENGINE.md). */
export * from './io/index.ts';
