import * as io from 'moriarty/mori';

const loopback = io.createLoopback({ times: io.NICS.cx7 });
const [initiator, target] = ['initiator', 'target'].map((key) => io.addEngine(loopback, key));
for (const engine of [initiator, target]) io.createBackend(engine, io.BackendType.RDMA, { qpPerTransfer: 2 });
io.registerRemoteEngine(initiator, target.desc);
io.registerRemoteEngine(target, initiator.desc);

const received = new Uint8Array(1 << 20);
const local = io.addMemory(loopback, initiator, new Uint8Array(1 << 20).fill(7));
const remote = io.unpackMemoryDesc(io.packMemoryDesc(io.addMemory(loopback, target, received)));

const entries = { localOffsets: [0, 4096], remoteOffsets: [8192, 0], sizes: [4096, 8192] };
const [status, transferId] = [io.createStatus(), io.allocateTransferId(initiator)];
io.transfer(initiator, { operation: 'write', local, remote, entries, transferId, status });
const code = io.waitFor(loopback, initiator, status);
while (io.advance(loopback)); // what is still on its way, here the notification
const inbound = io.popInboundTransferStatus(target, 'initiator', transferId, io.createStatus());

console.log(io.statusName(code), 'target knows:', inbound, 'bytes:', received.lastIndexOf(7) + 1);
