import { PollCqMode, StatusCode } from '../../../src/io/codes.ts';
import { sessionTransfer, transfer } from '../../../src/io/engine/engine.ts';
import { createStatus, setStatusCode, updateStatus } from '../../../src/io/transfer-status.ts';
import { apart, entriesOf, finishCall, makeSession, pump, type Row } from './rig.ts';
import type { Recorder } from './trace-record.ts';

/** What was asked of the library in each scenario of mori-io-traces.json, as its steps tell it. */
export const SCRIPTS: Readonly<Record<string, (recorder: Recorder) => void>> = {
  basic: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const { target } = pair;
    recorder.callStep('write 4096 at 0', pair, 0, [[0, 0, 4096]], { single: true });
    recorder.pop('target, id 0', target, 'initiator', 0);
    recorder.pop('target, id 0 again: not consumed', target, 'initiator', 0);
    recorder.pop('target, id 1 never sent', target, 'initiator', 1);
    recorder.callStep('read 100 local 10 remote 200', pair, 1, [[10, 200, 100]], {
      read: true,
      single: true,
    });
    recorder.pop('target, id 1 after a read', target, 'initiator', 1);
    recorder.callStep('write size 0', pair, 2, [[5, 5, 0]], { single: true });
    recorder.result({ ev: 'data', equal: 1 });
    recorder.step('second transfer with a reused id 0');
    // The trace looks before the target's completion thread has counted the second message.
    const call = recorder.call(pair, 0, [[0, 0, 8]], { single: true, only: pair.initiator });
    recorder.status('reused id', call.status);
    recorder.pop(
      'target, id 0 after reuse: counter went negative, never popped again',
      target,
      'initiator',
      0,
    );
  },
  merge: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const steps: readonly [string, readonly Row[]][] = [
      ['3 contiguous both sides', rowsAt([0, 0, 256], [256, 256, 256], [512, 512, 256])],
      ['remote contiguous, local gaps: SGE list', gaps(3)],
      ['remote contiguous, local gaps, 6 requests (max 4 SGE)', gaps(6)],
      ['unsorted remote offsets', rowsAt([512, 512, 256], [0, 0, 256], [256, 256, 256])],
      ['local contiguous, remote gaps: no merge', rowsAt([0, 0, 256], [256, 1000, 256], [512, 2000, 256])],
      ['SGE then contiguous extends the last SGE', rowsAt([0, 0, 256], [1000, 256, 256], [1256, 512, 256])],
      ['zero sizes inside a batch', rowsAt([0, 0, 100], [100, 100, 0], [100, 100, 200])],
      ['zero size, remote contiguous, local elsewhere', rowsAt([0, 0, 100], [5000, 100, 0], [100, 100, 100])],
      ['all zero', rowsAt([0, 0, 0], [50, 50, 0])],
      ['same remote offset twice', rowsAt([0, 100, 64], [300, 100, 64])],
      ['overlapping remote ranges', rowsAt([0, 100, 64], [300, 132, 64])],
    ];
    steps.forEach(([name, rows], id) => {
      recorder.callStep(name, pair, id, rows);
    });
    recorder.callStep('read, remote contiguous, local gaps', pair, 11, gaps(2), { read: true });
  },
  qp2: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    recorder.callStep('single write 64', pair, 0, [[0, 0, 64]], { single: true });
    recorder.callStep('single write 64', pair, 1, [[0, 0, 64]], { single: true });
    recorder.callStep('5 unmergeable', pair, 2, apart(5));
    recorder.callStep('5 unmergeable, next id', pair, 3, apart(5));
    recorder.pop('target', pair.target, 'initiator', 3);
  },
  qp4_pbs1: (recorder) => {
    recorder.step('setup');
    recorder.callStep('10 unmergeable, postBatchSize 1', recorder.pair(), 0, apart(10));
  },
  chunk: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const single = { single: true };
    recorder.callStep('write 65536: one chunk', pair, 0, [[0, 0, 65_536]], single);
    recorder.callStep('write 65537: two chunks', pair, 1, [[0, 0, 65_537]], single);
    recorder.callStep('write 1 MiB: 16 chunks over 4 QPs', pair, 2, [[0, 0, 2 ** 20]], single);
    recorder.callStep('write 8 MiB: capped at 64 chunks', pair, 3, [[0, 0, 2 ** 23]], single);
    const smallAndLarge = rowsAt([0, 0, 4096], [300_000, 300_000, 200_000]);
    recorder.callStep('batch: one small, one 200000', pair, 4, smallAndLarge);
    const list = rowsAt([0, 0, 100_000], [500_000, 100_000, 4096]);
    recorder.callStep('batch with SGE list and an oversized SGE', pair, 5, list);
    recorder.callStep('write 0', pair, 6, [[0, 0, 0]], single);
  },
  maxmsg: (recorder) => {
    recorder.rig.maxMessageBytes = 262_144;
    recorder.step('setup');
    const pair = recorder.pair();
    const name = 'write 300000 with max_msg_sz 262144, no chunking';
    recorder.callStep(name, pair, 0, [[0, 0, 300_000]], { single: true });
    const two = rowsAt([0, 0, 200_000], [200_000, 200_000, 200_000]);
    recorder.callStep('two 200000 contiguous merge past max_msg_sz', pair, 1, two);
  },
  maxmsg_chunk: (recorder) => {
    recorder.rig.maxMessageBytes = 262_144;
    recorder.step('setup');
    const pair = recorder.pair();
    const first = 'write 1 MiB, chunkBytes 1 MiB, max_msg_sz 262144: hard minimum of 4';
    recorder.callStep(first, pair, 0, [[0, 0, 2 ** 20]], { single: true });
    const second = 'write 4 MiB: maxChunks 2 overridden by max_msg_sz';
    recorder.callStep(second, pair, 1, [[0, 0, 2 ** 22]], { single: true });
  },
  args: (recorder) => {
    recorder.step('setup');
    const first = recorder.pair({ bytes: 4096 });
    recorder.callStep('write past the end', first, 0, [[4000, 0, 100]], { single: true });
    recorder.callStep('read past the remote end', first, 1, [[0, 4000, 100]], { read: true, single: true });
    recorder.callStep('write 0 at the end', first, 2, [[4096, 4096, 0]], { single: true });
    recorder.callStep('offset 2^64-1 size 2 wraps past the range check', first, 3, [[0, -1, 2]], {
      single: true,
    });
    const second = recorder.pair({ bytes: 4096 });
    recorder.step('length mismatch on a session');
    const mismatched = createStatus();
    sessionTransfer(second.initiator, second.session, {
      operation: 'write',
      entries: { localOffsets: [0, 1], remoteOffsets: [0], sizes: [1, 1] },
      transferId: 0,
      status: mismatched,
    });
    recorder.status('length mismatch on a session', mismatched);
    recorder.callStep('empty batch on a session', second, 1, []);
    const what = 'target sees a notification for the empty session batch';
    recorder.pop(what, second.target, 'initiator', 1);
    recorder.callStep('one bad entry: nothing posted', second, 2, rowsAt([0, 0, 64], [4000, 4000, 200]));
    recorder.step('empty inner batch on the engine');
    const { local, remote, initiator } = second;
    const status = createStatus();
    const request = {
      operation: 'write',
      local,
      remote,
      entries: entriesOf([]),
      transferId: 77,
      status,
    } as const;
    finishCall(recorder.rig, transfer(initiator, request));
    recorder.status('engine empty inner batch', status);
    recorder.pop('target, no notification', second.target, 'initiator', 77);
    recorder.step('zero descriptors on the engine');
    recorder.result({ ev: 'note', text: 'BatchWrite with no descriptors returned' });
  },
  exec: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    recorder.callStep('2 workers, 5 unmergeable', pair, 0, apart(5));
    const four = Array.from({ length: 4 }, (_, index): Row => [index * 256, index * 256, 256]);
    recorder.callStep('2 workers, contiguous 4: split 2+2 before merging', pair, 1, four);
    const half = '2 workers, second half out of range: first half is still transferred';
    recorder.callStep(half, pair, 2, rowsAt([0, 0, 64], [2 ** 30, 2 ** 30, 64]));
    const bytes = recorder.rig.buffers.get(pair.remote.data)!.subarray(0, 64);
    const equal = Number(bytes.every((byte) => byte === 0x5a));
    recorder.result({ ev: 'data', what: 'first 64 bytes arrived in spite of the error', equal });
    recorder.callStep('1 request, 2 workers', pair, 3, [[0, 0, 64]]);
    recorder.callStep('empty batch with workers', pair, 4, []);
    const same = 'mismatch with workers: sizes longer would read past; same length used here';
    recorder.callStep(same, pair, 5, [[0, 0, 32]]);
  },
  nics2: (recorder) => {
    recorder.step('setup');
    recorder.callStep('8 unmergeable over 2 NICs x 2 QPs', recorder.pair(), 0, apart(8));
  },
  sqfull: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const first = '10 unmergeable, postBatchSize 5, SQ 8: the unsignaled first chain blocks the second';
    recorder.callStep(first, pair, 0, apart(10));
    recorder.callStep('4 unmergeable afterwards: 5 credits leaked, 3 left', pair, 1, apart(4));
    recorder.callStep('3 unmergeable fit', pair, 2, apart(3));
  },
  sqfull_auto: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const { rig } = recorder;
    const first = '20 unmergeable, auto postBatchSize, SQ 8: 8+8+4, each signaled';
    recorder.callStep(first, pair, 0, apart(20));
    recorder.step('hold completions');
    rig.hold = true;
    const held = recorder.call(pair, 1, apart(8));
    const second = recorder.call(pair, 2, [[0, 0, 50]], { single: true });
    recorder.status('write while the SQ is full and nothing drains', second.status);
    rig.hold = false;
    pump(rig);
    recorder.status('first batch after release', held.status);
    recorder.callStep('write after drain', pair, 3, [[0, 0, 50]], { single: true });
  },
  notif_sqfull: (recorder) => {
    const { rig } = recorder;
    recorder.step('setup');
    const pair = recorder.pair();
    rig.hold = true;
    const first = recorder.call(pair, 60, [[0, 0, 50]], { single: true });
    recorder.step('second write: data WR waits for the queue');
    const second = recorder.call(pair, 61, [[0, 0, 50]], { single: true });
    recorder.status('second write', second.status);
    rig.hold = false;
    pump(rig);
    recorder.status('first', first.status);
    const narrow = recorder.pair({ config: { qpPerTransfer: 1, maxSendWr: 1 } });
    rig.hold = true;
    const third = recorder.call(narrow, 0, [[0, 0, 50]], { single: true });
    recorder.status('SQ 1: data posted, notification has no room', third.status);
    rig.hold = false;
    pump(rig);
    recorder.code('after the data CQE: error is sticky', third.status);
  },
  exceeds: (recorder) => {
    recorder.step('setup');
    recorder.pair();
    const second = recorder.pair();
    recorder.callStep('9 unmergeable, postBatchSize 100 is clamped to the SQ depth 8', second, 0, apart(9));
  },
  postfail: (recorder) => {
    const { sim } = recorder.rig;
    recorder.step('setup');
    const pair = recorder.pair();
    sim.postFailure = { posted: 0, errno: 12 };
    recorder.callStep('ENOMEM on the first WR of 3', pair, 0, apart(3));
    recorder.callStep('next batch is fine', pair, 1, apart(2));
    sim.postFailure = { posted: 2, errno: 22 };
    recorder.callStep('EINVAL on the third WR of 4: 2 posted without a signal', pair, 2, apart(4));
    recorder.callStep('EP is degraded', pair, 3, apart(1));
    recorder.callStep('still degraded: nothing clears it', pair, 4, apart(1));
  },
  notif_postfail: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    recorder.step('the notification post fails after the data WR was posted');
    recorder.rig.hooks.failNotification = 12;
    const call = recorder.call(pair, 9, [[0, 0, 64]], { single: true });
    recorder.status('data landed, notification failed: ends as an error', call.status);
    const bytes = recorder.rig.buffers.get(pair.remote.data)!.subarray(0, 64);
    recorder.result({ ev: 'data', equal: Number(bytes.every((byte) => byte === 0x5a)) });
    recorder.callStep('next write is fine', pair, 0, [[0, 0, 64]], { single: true });
  },
  nonzero_tail: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    recorder.rig.sim.failing.set(0, 'REM_ACCESS_ERR');
    const name = '3 unmergeable, the first (unsignaled) WR fails: only the flush of the tail is seen';
    recorder.callStep(name, pair, 0, apart(3));
  },
  wcerr: (recorder) => {
    const { failing } = recorder.rig.sim;
    const single = { single: true };
    recorder.step('setup');
    const access = recorder.pair();
    failing.set(0, 'REM_ACCESS_ERR');
    recorder.callStep('REM_ACCESS_ERR', access, 0, [[0, 0, 50]], single);
    recorder.callStep('next write on the broken QP is flushed', access, 1, [[0, 0, 50]], single);
    recorder.pop('target: no notification', access.target, 'initiator', 0);
    const retry = recorder.pair();
    failing.set(2, 'RETRY_EXC_ERR');
    recorder.callStep('RETRY_EXC_ERR', retry, 0, [[0, 0, 50]], single);
    const two = recorder.pair({ config: { qpPerTransfer: 2 } });
    failing.set(4, 'LOC_PROT_ERR');
    recorder.callStep('LOC_PROT_ERR on one of two QPs', two, 0, apart(4));
    recorder.callStep('single write, id parity picks a QP', two, 1, [[0, 0, 50]], single);
    recorder.callStep('single write, other QP', two, 2, [[0, 0, 50]], single);
    const reused = recorder.pair();
    recorder.step('same status object reused after an error');
    failing.set(8, 'REM_ACCESS_ERR');
    const { status } = recorder.call(reused, 90, [[0, 0, 50]], single);
    recorder.status('error', status);
    updateStatus(status, StatusCode.SUCCESS, '');
    recorder.code('Update(SUCCESS) after an error is ignored', status);
    setStatusCode(status, StatusCode.SUCCESS);
    recorder.code('SetCode(SUCCESS) after an error is not', status);
  },
  bidir: (recorder) => {
    recorder.step('setup');
    const { initiator, target, local, remote } = recorder.pair();
    recorder.step('reverse session');
    const made = makeSession(target, remote, local);
    if (made.kind !== 'session') return;
    const call = recorder.call({ initiator: target, session: made.session }, 5, [[0, 0, 64]], {
      single: true,
    });
    recorder.status('reverse write over the QPs made by the forward session', call.status);
    recorder.pop('initiator sees it', initiator, 'target', 5);
  },
  notif_mismatch: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair({ targetConfig: { enableNotification: false } });
    const first = 'write 1: data done, notification SEND has no RECV (infinite RNR)';
    recorder.callStep(first, pair, 0, [[0, 0, 64]], { single: true });
    recorder.callStep(
      'write 2 is stuck behind it',
      pair,
      1,
      [[64, 64, 64]].map(([l, r, n]) => [l - 64, r, n] as const),
      {
        single: true,
      },
    );
  },
  event: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair({ config: { qpPerTransfer: 1, pollCqMode: PollCqMode.EVENT } });
    recorder.callStep('EVENT mode write', pair, 0, [[0, 0, 64]], { single: true });
    recorder.pop('target', pair.target, 'initiator', 0);
  },
  late_flip: (recorder) => {
    recorder.step('setup');
    const name = 'SQ 1: the notification waits until the data CQE frees the slot';
    recorder.callStep(name, recorder.pair(), 0, [[0, 0, 64]], { single: true });
  },
  qp0: (recorder) => {
    recorder.step('qpPerTransfer 0: no endpoints');
    const call = recorder.call(recorder.pair(), 0, [[0, 0, 64]], { single: true });
    recorder.status('qpPerTransfer 0: no endpoints', call.status);
  },
  rr_inline: (recorder) => {
    recorder.step('setup');
    const name = 'CPU memory, numNicsPerTransfer 1, 2 NICs, 4 QPs, inline';
    recorder.callStep(name, recorder.pair(), 0, apart(4));
  },
  exec_chunk_cpu: (recorder) => {
    recorder.step('setup');
    const pair = recorder.pair();
    const rows = rowsAt([0, 0, 8192], [20_000, 20_000, 8192]);
    recorder.callStep('workers + chunking on CPU memory: inline path', pair, 0, rows);
  },
};

function rowsAt(...rows: Row[]): Row[] {
  return rows;
}

/** Remote side without gaps, local side 1000 apart. */
function gaps(count: number): Row[] {
  return Array.from({ length: count }, (_, index) => [index * 1000, index * 256, 256] as const);
}
