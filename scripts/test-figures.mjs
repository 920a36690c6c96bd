// Prints the figures of the last test run as one line; fails when there was none or when no test ran.
import { readFileSync } from 'node:fs';

const results = JSON.parse(readFileSync(new URL('../build/test-results.json', import.meta.url), 'utf8'));
const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = results;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = passed > 0 && failed === 0 && results.success ? 0 : 1;
