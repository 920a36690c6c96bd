import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    pool: 'forks',
    // One for each core: left to itself vitest keeps one core free, which on two cores doubles the time.
    maxWorkers: availableParallelism(),
  },
});
