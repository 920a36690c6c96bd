// Makes examples/small.jsonl: a request trace of our own in Mooncake's format. The same output at each run.
// 40 conversations of up to 8 turns over one of three system prompts; each turn's prompt continues the last one's.
import { writeFileSync } from 'node:fs';

const HASH_BLOCK_TOKENS = 512;
const CONVERSATIONS = 40;
const SYSTEM_BLOCKS = [2, 4, 7];

let state = 20260101;
function below(bound) {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 4294967296) * bound);
}

let nextId = 0;
const freshIds = (count) => Array.from({ length: count }, () => nextId++);
const systems = SYSTEM_BLOCKS.map((blocks) => freshIds(blocks));
const requests = [];
for (let conversation = 0; conversation < CONVERSATIONS; conversation++) {
  let ids = [...systems[below(systems.length)]];
  let timestamp = below(30_000);
  for (let turn = 1 + below(8); turn > 0; turn--) {
    ids = [...ids, ...freshIds(1 + below(4))];
    const input_length = ids.length * HASH_BLOCK_TOKENS - below(HASH_BLOCK_TOKENS);
    requests.push({ timestamp, input_length, output_length: 4 + below(300), hash_ids: ids });
    timestamp += 3_000 + below(9_000);
  }
}
requests.sort((left, right) => left.timestamp - right.timestamp || left.hash_ids[0] - right.hash_ids[0]);
writeFileSync(
  new URL('../examples/small.jsonl', import.meta.url),
  requests.map((request) => `${JSON.stringify(request)}\n`).join(''),
);
