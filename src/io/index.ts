/**
 * What MoRI-IO offers, under MoRI-IO's names as far as TypeScript lets them be: an engine is plain data, and what were
 * its methods are functions that take it first. docs/ENGINE.md says which is which.
 */

export {
  BackendType,
  failed,
  MemoryLocationType,
  PollCqMode,
  StatusCode,
  type StatusName,
  statusName,
} from './codes.ts';
export { type ControlMessage, decodeMessage, encodeMessage } from './control-frames.ts';
export {
  type BackendConfig,
  type FabricBackendConfig,
  XGMI_DEFAULTS,
  type XgmiBackendConfig,
} from './copy-config.ts';
export {
  type EngineDesc,
  emptyEngineDesc,
  emptyMemoryDesc,
  type MemoryDesc,
  packEngineDesc,
  packMemoryDesc,
  sameEngineDesc,
  sameMemoryDesc,
  unpackEngineDesc,
  unpackMemoryDesc,
} from './descriptors.ts';
export { createBackend, removeBackend } from './engine/backends.ts';
export {
  type ControlAnswer,
  type ControlServer,
  controlDeadline,
  createControlServer,
  expireControl,
  receiveControl,
} from './engine/control-server.ts';
export {
  alive,
  allocateTransferId,
  codeOf,
  createEngine,
  createSession,
  deregisterMemory,
  deregisterRemoteEngine,
  type EngineOptions,
  type Memory,
  popInboundTransferStatus,
  registerMemory,
  registerRemoteEngine,
  resetQueuePairs,
  sessionTransfer,
  type TransferRequest,
  transfer,
  transferBatches,
} from './engine/engine.ts';
export type {
  Gpu,
  GpuCopy,
  Host,
  Machine,
  NicPort,
  Notification,
  PostedChain,
  PostOutcome,
  WorkCompletion,
  WorkStatus,
} from './engine/host.ts';
export {
  answered,
  answeredInProcess,
  asyncEvent,
  atTime,
  complete,
  serve,
  serveInProcess,
  timerFired,
  unanswered,
} from './engine/inputs.ts';
export { type Fidelity, QUIRKS, type QuirkName, type Quirks } from './engine/quirks.ts';
export type { Call, CreationOutcome, IOEngine, Session as IOEngineSession } from './engine/state.ts';
export { beginWait, type StatusHooks, type StatusWait, stepWait } from './engine/wait.ts';
export {
  addEngine,
  addMemory,
  advance,
  createLoopback,
  type Loopback,
  type LoopbackEngineOptions,
  type LoopbackOptions,
  waitAll,
  waitFor,
} from './loopback.ts';
export { type SimulatedMachine, simulateMachine } from './machine-sim.ts';
export { INSTANT, NICS, type NicTimes } from './profiles.ts';
export { type Environment, type NicLimits, RDMA_DEFAULTS, type RdmaBackendConfig } from './rdma-config.ts';
export type { BatchEntries } from './submission.ts';
export {
  createStatus,
  type StatusList,
  setStatusCode,
  showStatus,
  type TransferStatus,
  updateStatus,
  waitAllAtDeadline,
  waitAllOutcome,
  waitAllPoll,
} from './transfer-status.ts';
export { type Landing, landHead, landNext } from './verbs-land.ts';
export {
  type ChainFate,
  createVerbs,
  endProcess,
  type Mover,
  type Posted,
  type SimQueuePair,
  type SimRegion,
  type VerbsSim,
  verbsOf,
} from './verbs-sim.ts';
