import { expect, test } from 'vitest';
import { finish, mix } from '../../../src/base/mix.ts';
import { createModel, type Model, type ModelFailure, modelCall } from './post-model.ts';
import { addPair, apart, createRig, finishCall, type Pair, pump, type Rig, start } from './rig.ts';

/** Posts that fail, against a second reading of the rules (post-model.ts). */

const NOTIF_PER_QP = 16;
const SCRIPTS = 250;
const STATUSES = [
  ['RETRY_EXC_ERR', 'transport retry counter exceeded'],
  ['LOC_PROT_ERR', 'local protection error'],
  ['REM_ACCESS_ERR', 'remote access error'],
] as const;
const ERRNOS = [
  [12, 'Cannot allocate memory'],
  [22, 'Invalid argument'],
  [5, 'Input/output error'],
  [11, 'Resource temporarily unavailable'],
  [110, 'Connection timed out'],
] as const;

/** Numbers below a bound, the same for the same seed. */
function drawing(seed: number): (bound: number) => number {
  let drawn = 0;
  return (bound) => {
    drawn += 1;
    return finish(mix(seed, drawn)) % bound;
  };
}

function expectSame(model: Model, { session }: Pair, posts: readonly string[]): void {
  expect(posts).toEqual(model.posts);
  expect(
    session.endpoints.map(({ depth, degraded, ledger }) => ({ depth, degraded, nextId: ledger.nextId })),
  ).toEqual(model.queuePairs.map(({ depth, degraded, nextId }) => ({ depth, degraded, nextId })));
}

/** Arms the failure of a post for both sides. */
function arm(rig: Rig, model: Model, posts: readonly string[], failure: ModelFailure): void {
  model.failure = failure;
  rig.sim.postFailure = null;
  const armNow = (): void => {
    if (posts.length === failure.atPost) rig.sim.postFailure = failure;
  };
  rig.hooks.armNow = armNow;
  armNow();
}

/** One script; how many of its posts failed and how many calls met a degraded queue pair. */
function runScript(seed: number): readonly [failed: number, degraded: number] {
  const draw = drawing(seed);
  const queuePairs = 1 + draw(4);
  const config = {
    qpPerTransfer: queuePairs,
    postBatchSize: [-1, 1, 2, 3][draw(4)],
    maxSendWr: draw(2) === 0 ? 4 + draw(12) : 256,
    enableNotification: draw(2) === 0,
  };
  const rig = createRig();
  const posts: string[] = [];
  const pair = addPair(rig, config);
  const nameOf = (qpn: number): number => pair.session.endpoints.findIndex(({ local }) => local.qpn === qpn);
  rig.hooks.posted = (qpn, { first, end, signaled, tailId }, posted, errno) => {
    const id = signaled ? tailId : 0;
    posts.push(`${nameOf(qpn)}: ${posted}/${end - first} id ${id} errno ${errno}`);
    rig.hooks.armNow?.();
  };
  rig.hooks.notified = (qpn, _, errno) => {
    posts.push(`${nameOf(qpn)}: notify errno ${errno}`);
    rig.hooks.armNow?.();
  };
  const { maxSendWr, postBatchSize, enableNotification: notifies } = config;
  const model = createModel({ queuePairs, postBatchSize, maxSendWr, notifies, firstRecordId: NOTIF_PER_QP });
  let degraded = 0;
  for (let call = 0; call < 6; call += 1) {
    if (draw(2) === 0) {
      const [errno, text] = ERRNOS[draw(ERRNOS.length)];
      arm(rig, model, posts, { atPost: posts.length + draw(6), posted: draw(3), errno, text });
    }
    // A call that waits for room goes on in the middle of a round of completions: which error is first is chance then.
    if (draw(4) === 0 && config.maxSendWr === 256) {
      const at = draw(queuePairs);
      const [status, text] = STATUSES[draw(STATUSES.length)];
      if (!model.queuePairs[at].broken) {
        model.queuePairs[at].failing = text;
        rig.sim.failing.set(pair.session.endpoints[at].local.qpn, status);
      }
    }
    const single = draw(3) === 0;
    const count = single ? 1 : 1 + draw(10);
    const id = draw(1000);
    const expected = modelCall(model, count, id, single);
    const made = start(pair.initiator, pair.session, { rows: apart(count), id, single });
    finishCall(rig, made);
    pump(rig);
    const { code, message } = made.status;
    expect([code, message.split(' Hint: ')[0]]).toEqual([expected.code, expected.message]);
    expectSame(model, pair, posts);
    if (message.startsWith('EP is degraded')) degraded += 1;
  }
  return [posts.filter((post) => !post.endsWith('errno 0')).length, degraded];
}

test(`${SCRIPTS} random scripts with failed posts end as the rules say`, () => {
  let [failed, degraded] = [0, 0];
  for (let seed = 0; seed < SCRIPTS; seed += 1) {
    const [posts, calls] = runScript(seed);
    failed += posts;
    degraded += calls;
  }
  expect(failed).toBeGreaterThan(SCRIPTS / 2);
  expect(degraded).toBeGreaterThan(SCRIPTS / 20);
});
