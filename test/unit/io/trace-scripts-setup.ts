import { BackendType } from '../../../src/io/codes.ts';
import type { MemoryDesc } from '../../../src/io/descriptors.ts';
import { createBackend } from '../../../src/io/engine/backends.ts';
import {
  deregisterMemory,
  deregisterRemoteEngine,
  registerMemory,
  registerRemoteEngine,
  transfer,
} from '../../../src/io/engine/engine.ts';
import type { IOEngine } from '../../../src/io/engine/state.ts';
import type { RdmaBackendConfig } from '../../../src/io/rdma-config.ts';
import { createStatus } from '../../../src/io/transfer-status.ts';
import { addEngine, addMemory, createRig, entriesOf, fullConfig, makeSession, type Pair } from './rig.ts';
import type { Recorder } from './trace-record.ts';

/** The scenarios about registering, connecting and configuring. */
export const SETUP_SCRIPTS: Readonly<Record<string, (recorder: Recorder) => void>> = {
  ctrl: (recorder) => {
    recorder.step('setup');
    refusedSessions(recorder, recorder.pair({ bytes: 4096 }));
    const first = recorder.pair({ bytes: 4096 });
    unknownAfterDeregister(recorder, first);
    const single = { single: true };
    const works = 'existing session after DeregisterRemoteEngine still works';
    recorder.callStep(works, first, 0, [[0, 0, 64]], single);
    deregisterMemory(first.target, first.remote);
    recorder.callStep(
      'existing session after the target deregistered its memory',
      first,
      1,
      [[0, 0, 64]],
      single,
    );
    const second = recorder.pair({ bytes: 4096 });
    deregisterMemory(second.initiator, second.local);
    recorder.callStep('existing session after local DeregisterMemory', second, 0, [[0, 0, 64]], single);
    deregisterMemory(second.initiator, second.local);
    recorder.result({ ev: 'note', text: 'second DeregisterMemory of the same desc is a no-op' });
    recorder.step('same pointer registered twice, sessions for both');
    const third = recorder.pair({ bytes: 4096 });
    const { data: address, size: bytes, loc } = third.local;
    const again = registerMemory(third.initiator, { address, bytes, loc });
    recorder.result({ ev: 'note', text: `ids ${third.local.id} and ${again.id}` });
    makeSession(third.initiator, again, third.remote);
    deregisterMemory(third.initiator, again);
    const name = 'first session after deregistering the second desc of the same pointer';
    recorder.callStep(name, third, 0, [[0, 0, 64]], single);
  },
  order: (recorder) => {
    const { rig } = recorder;
    recorder.step('setup');
    const a = addEngine(rig, 'a');
    const b = addEngine(rig, 'b');
    const early = addMemory(rig, b, 4096);
    createBackend(b, BackendType.RDMA, fullConfig({}));
    createBackend(a, BackendType.RDMA, fullConfig({}));
    registerRemoteEngine(a, b.desc);
    recordSession(
      recorder,
      'target memory registered before CreateBackend',
      a,
      addMemory(rig, a, 4096),
      early,
    );
    const c = addEngine(rig, 'c');
    registerRemoteEngine(c, b.desc);
    createBackend(c, BackendType.RDMA, fullConfig({}));
    const what = 'RegisterRemoteEngine before CreateBackend is forgotten';
    recordSession(recorder, what, c, addMemory(rig, c, 4096), early);
    const before = c.rdma;
    createBackend(c, BackendType.RDMA, fullConfig({}));
    if (c.rdma === before) {
      recorder.result({ ev: 'note', text: 'second CreateBackend of a type is a no-op' });
    }
  },
  badcfg: (recorder) => {
    recorder.step('setup');
    const tries: readonly [string, Partial<RdmaBackendConfig>][] = [
      ['notifPerQp 0', { notifPerQp: 0 }],
      ['maxChunks 0', { maxChunksPerTransfer: 0 }],
      ['numNics 0', { numNicsPerTransfer: 0 }],
      ['chunkBytes 4095', { enableTransferChunking: true, chunkBytes: 4095 }],
      ['qpPerTransfer 0', { qpPerTransfer: 0 }],
      ['qpPerTransfer -3', { qpPerTransfer: -3 }],
      ['postBatchSize 0', { postBatchSize: 0 }],
      ['numWorkerThreads 0', { numWorkerThreads: 0 }],
      ['numWorkerThreads -1', { numWorkerThreads: -1 }],
    ];
    for (const [what, config] of tries) {
      const threw = createBackend(addEngine(createRig(), 'fresh'), BackendType.RDMA, fullConfig(config));
      recorder.result(threw === null ? { ev: 'cfg', what, ok: 1 } : { ev: 'cfg', what, threw });
    }
  },
};

function refusedSessions(recorder: Recorder, { initiator, target, local, remote }: Pair): void {
  const stranger = { ...remote, engineKey: 'nobody' };
  recordSession(recorder, 'remote engine not registered', initiator, local, stranger);
  recordSession(recorder, 'remote memory id unknown', initiator, local, { ...remote, id: 99 });
  recordSession(recorder, 'remote desc with another size', initiator, local, { ...remote, size: 100n });
  const empty = { ...remote, id: 99, size: 0n };
  recordSession(recorder, 'unknown id with size 0 passes the size check', initiator, local, empty);
  const unregistered = { ...local, id: 55, data: local.data + 0x1_0000_0000n };
  recordSession(
    recorder,
    'local memory never registered: registered on the fly',
    initiator,
    unregistered,
    remote,
  );
  deregisterRemoteEngine(initiator, target.desc.key);
}

function unknownAfterDeregister(recorder: Recorder, { initiator, target, local, remote }: Pair): void {
  deregisterRemoteEngine(initiator, target.desc.key);
  recordSession(recorder, 'after DeregisterRemoteEngine', initiator, local, remote);
  const status = createStatus();
  const entries = entriesOf([[0, 0, 64]]);
  transfer(initiator, { operation: 'write', local, remote, entries, transferId: 0, status, single: true });
  recorder.status('engine write after DeregisterRemoteEngine', status);
}

function recordSession(
  recorder: Recorder,
  what: string,
  engine: IOEngine,
  local: MemoryDesc,
  remote: MemoryDesc,
): void {
  const outcome = makeSession(engine, local, remote);
  if (outcome.kind === 'threw') recorder.result({ ev: 'session', what, threw: outcome.text });
  else recorder.result({ ev: 'session', what, has: Number(outcome.kind === 'session') });
}
