import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { type Done, workInOrder } from '../../../src/node/worker-pool.ts';

const folder = mkdtempSync(join(tmpdir(), 'moriarty-pool-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Answers even tasks late; ends where it is told to. */
const file = join(folder, 'thread.mjs');
writeFileSync(
  file,
  `import { parentPort, workerData } from 'node:worker_threads';
parentPort.on('message', (task) => {
  if (workerData.exitAt.includes(task)) process.exit(7);
  if (workerData.throwAt === task) throw new RangeError('too much');
  setTimeout(() => parentPort.postMessage(task * task), task % 2 === 0 ? 20 : 0);
});`,
);

interface Plan {
  readonly threads: number;
  readonly tasks: number;
  readonly exitAt?: readonly number[];
  readonly throwAt?: number;
  readonly until?: number;
}

async function doneBy({ threads, tasks, exitAt = [], throwAt = -1, until = -1 }: Plan) {
  const taken: Done<number, number>[] = [];
  let given = 0;
  await workInOrder<number, number>({
    file,
    data: { exitAt, throwAt },
    threads,
    next: () => (given < tasks ? given++ : null),
    take: (done) => {
      taken.push(done);
      return done.task !== until;
    },
  });
  return { taken, given };
}

const squares = (count: number) =>
  Array.from({ length: count }, (_, task) => ({ task, result: task * task }));

test.each([1, 2, 3])('%d threads answer in the order of the tasks', async (threads) => {
  expect((await doneBy({ threads, tasks: 9 })).taken).toEqual(squares(9));
});

test('no task is no work', async () => {
  expect((await doneBy({ threads: 2, tasks: 0 })).taken).toEqual([]);
});

test('nothing is taken after the answer that was enough', async () => {
  const { taken, given } = await doneBy({ threads: 3, tasks: 1000, until: 4 });
  expect(taken).toEqual(squares(5));
  expect(given).toBeLessThan(1000);
});

test('the task of a thread that ended is lost, and the others go on', async () => {
  const { taken } = await doneBy({ threads: 2, tasks: 8, exitAt: [3] });
  expect(taken[3]).toEqual({ task: 3, lost: 'it ended with exit code 7' });
  expect(taken.map((done) => ('lost' in done ? squares(8)[3] : done))).toEqual(squares(8));
});

test('what a thread throws is why its task is lost', async () => {
  const { taken } = await doneBy({ threads: 2, tasks: 3, throwAt: 1 });
  expect(taken[1]).toEqual({ task: 1, lost: 'too much' });
});

test('without a thread there is an end', async () => {
  const { taken, given } = await doneBy({ threads: 2, tasks: 100, exitAt: [2, 3] });
  expect(taken.filter((done) => 'lost' in done).map(({ task }) => task)).toEqual([2, 3]);
  expect(taken).toHaveLength(given);
  expect(given).toBeLessThan(100);
});
