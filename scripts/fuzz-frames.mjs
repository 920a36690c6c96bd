// Spoiled frames for everything that reads bytes of others, in a process that is short of memory.
//   node --max-old-space-size=256 --import tsx scripts/fuzz-frames.mjs --frames 1000000 --seed 1 [--json]
// Prints for each decoder how many frames were accepted and refused by which code. Ends with 1 when a frame ends in anything
// else than a value or a coded refusal, or the process has grown beyond 512 MB; with 2 for wrong arguments.
import { fuzzFrames } from '../test/helpers/fuzz-frames.ts';

const RESIDENT_BYTES_MAX = 512 * 2 ** 20;

function numberAfter(name, fallback) {
  const at = process.argv.indexOf(name);
  if (at < 0) return fallback;
  const value = Number(process.argv[at + 1]);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  console.error(`scripts/fuzz-frames.mjs: ${name} needs a whole number, not ${process.argv[at + 1]}`);
  process.exit(2);
}

const frames = numberAfter('--frames', 100_000);
const seed = numberAfter('--seed', 1);
try {
  const report = fuzzFrames(frames, seed);
  const residentBytes = process.resourceUsage().maxRSS * 1024;
  if (process.argv.includes('--json')) console.log(JSON.stringify({ ...report, residentBytes }));
  else {
    for (const [decoder, verdicts] of Object.entries(report.verdicts)) {
      console.log(decoder);
      for (const [verdict, count] of Object.entries(verdicts).sort(([, a], [, b]) => b - a))
        console.log(`  ${String(count).padStart(8)}  ${verdict}`);
    }
    const most = Math.round(residentBytes / 2 ** 20);
    console.log(
      `${frames} frames, the longest of ${report.longestBytes} bytes; at most ${most} MiB resident`,
    );
  }
  if (residentBytes > RESIDENT_BYTES_MAX) {
    console.error(`${residentBytes} bytes resident, the limit is ${RESIDENT_BYTES_MAX}`);
    process.exitCode = 1;
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
