import { type PollCqMode, PollCqMode as PollCqModes } from './codes.ts';

/** MoRI-IO's RDMA settings as data (mori-io.md A5): defaults, checks, environment, and the sizes that follow. */
export interface RdmaBackendConfig {
  /** Queue pairs of a session. */
  readonly qpPerTransfer: number;
  /** Work requests of one chain; -1 spreads them evenly over the queue pairs. */
  readonly postBatchSize: number;
  /** Above 1, batches are shared out to threads, unless several NICs carry a transfer (A9). */
  readonly numWorkerThreads: number;
  readonly pollCqMode: PollCqMode;
  /** Whether targets are told of transfers; both sides must agree (0.18). */
  readonly enableNotification: boolean;
  /** Receives posted on each queue pair, and the first id of its ledger. */
  readonly notifPerQp: number;
  /** Whether long work requests are cut (A7). */
  readonly enableTransferChunking: boolean;
  /** At least 4096. */
  readonly chunkBytes: number;
  /** Of one work request; the largest message of a NIC beats it. */
  readonly maxChunksPerTransfer: number;
  /** NICs of a session between host memories (A6). */
  readonly numNicsPerTransfer: number;
  /** Sizes of a queue pair: work requests, completions, entries of a scatter list. 0 takes the default. */
  readonly maxSendWr: number;
  readonly maxCqeNum: number;
  readonly maxMsgSge: number;
}

/** The first ten in the order of upstream's constructor. */
export const RDMA_DEFAULTS: RdmaBackendConfig = {
  qpPerTransfer: 1,
  postBatchSize: -1,
  numWorkerThreads: 1,
  pollCqMode: PollCqModes.POLLING,
  enableNotification: true,
  notifPerQp: 1024,
  enableTransferChunking: false,
  chunkBytes: 65_536,
  maxChunksPerTransfer: 64,
  numNicsPerTransfer: 1,
  maxSendWr: 0,
  maxCqeNum: 0,
  maxMsgSge: 0,
};

/** A complaint about a config, or null: the first that applies counts. */
type Complaint = (config: RdmaBackendConfig) => string | null;

const COMPLAINTS: readonly Complaint[] = [
  (config) =>
    config.enableNotification && config.notifPerQp === 0
      ? 'notifPerQp must be >= 1 when notification is enabled'
      : null,
  (config) => (config.maxChunksPerTransfer < 1 ? 'maxChunksPerTransfer must be >= 1' : null),
  (config) => (config.numNicsPerTransfer < 1 ? 'numNicsPerTransfer must be >= 1' : null),
  (config) =>
    config.enableTransferChunking && config.chunkBytes < 4096
      ? 'chunkBytes must be >= 4096 when chunking is enabled'
      : null,
];

/** What upstream takes without a word and then cannot work with (A5). */
const SOUND_COMPLAINTS: readonly Complaint[] = [
  (config) => (config.qpPerTransfer < 1 ? 'qpPerTransfer must be >= 1' : null),
  (config) =>
    config.postBatchSize < 1 && config.postBatchSize !== -1 ? 'postBatchSize must be -1 or >= 1' : null,
];

const STRICT_COMPLAINTS = [...COMPLAINTS, ...SOUND_COMPLAINTS];

/** The text that CreateBackend throws for a config, or null when it is taken. `strict` also refuses what cannot work. */
export function checkConfig(config: RdmaBackendConfig, strict = false): string | null {
  for (const complaint of strict ? STRICT_COMPLAINTS : COMPLAINTS) {
    const text = complaint(config);
    if (text !== null) return `Invalid RDMA config: ${text}`;
  }
  return null;
}

/** Environment variables as a record; an absent or empty one says nothing. */
export type Environment = Readonly<Record<string, string | undefined>>;

type Parse<T> = (text: string) => T | undefined;

const parseFlag: Parse<boolean> = (text) => {
  const word = text.toLowerCase();
  if (['1', 'true', 'on', 'yes'].includes(word)) return true;
  return ['0', 'false', 'off', 'no'].includes(word) ? false : undefined;
};

function parseCount(least: number, most: number): Parse<number> {
  return (text) => {
    const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  };
}

const INT_MAX = 2 ** 31 - 1;
const parsePositive = parseCount(1, INT_MAX);
const parseSize = parseCount(1, 2 ** 32 - 1);
const parseBatch: Parse<number> = (text) => (text === '-1' ? -1 : parsePositive(text));
const parsePollMode: Parse<PollCqMode> = (text) => {
  const word = text.toLowerCase();
  if (word === '0' || word === 'polling') return PollCqModes.POLLING;
  return word === '1' || word === 'event' ? PollCqModes.EVENT : undefined;
};

interface Override {
  readonly variable: string;
  readonly field: keyof RdmaBackendConfig;
  readonly parse: Parse<RdmaBackendConfig[keyof RdmaBackendConfig]>;
}

const OVERRIDES: readonly Override[] = [
  { variable: 'MORI_IO_ENABLE_NOTIFICATION', field: 'enableNotification', parse: parseFlag },
  { variable: 'MORI_IO_ENABLE_CHUNKING', field: 'enableTransferChunking', parse: parseFlag },
  { variable: 'MORI_IO_CHUNK_BYTES', field: 'chunkBytes', parse: parsePositive },
  { variable: 'MORI_IO_MAX_CHUNKS', field: 'maxChunksPerTransfer', parse: parsePositive },
  { variable: 'MORI_IO_NUM_NICS_PER_TRANSFER', field: 'numNicsPerTransfer', parse: parsePositive },
  { variable: 'MORI_IO_QP_PER_TRANSFER', field: 'qpPerTransfer', parse: parsePositive },
  { variable: 'MORI_IO_NUM_WORKER_THREADS', field: 'numWorkerThreads', parse: parsePositive },
  { variable: 'MORI_IO_POST_BATCH_SIZE', field: 'postBatchSize', parse: parseBatch },
  { variable: 'MORI_IO_POLL_CQ_MODE', field: 'pollCqMode', parse: parsePollMode },
];

/** The config as a backend takes it: the environment wins where it can be read, and a warning says where it cannot. */
export function overrideConfig(
  config: RdmaBackendConfig,
  environment: Environment,
): { readonly config: RdmaBackendConfig; readonly warnings: readonly string[] } {
  const changes: Partial<Record<keyof RdmaBackendConfig, unknown>> = {};
  const warnings: string[] = [];
  if (isEmpty(environment)) return { config, warnings };
  for (const { variable, field, parse } of OVERRIDES) {
    const value = readVariable(environment, variable, parse, warnings);
    if (value !== undefined) changes[field] = value;
  }
  return { config: { ...config, ...(changes as Partial<RdmaBackendConfig>) }, warnings };
}

/** Nothing of its own. */
function isEmpty(environment: Environment): boolean {
  for (const name in environment) if (Object.hasOwn(environment, name)) return false;
  return true;
}

function readVariable<T>(
  environment: Environment,
  variable: string,
  parse: Parse<T>,
  warnings: string[] = [],
): T | undefined {
  const text = environment[variable];
  if (text === undefined || text === '') return undefined;
  const value = parse(text);
  if (value === undefined) warnings.push(`${variable}=${text} cannot be read, the config value stays`);
  return value;
}

const SQ_BACKOFF_DEFAULT_MICROS = 5_000_000;
const CONTROL_TIMEOUT_DEFAULT_MILLIS = 5000;

/** How long a submission waits for room in a send queue (A8). */
export function sendQueueBackoffMicros(environment: Environment): number {
  return (
    readVariable(environment, 'MORI_IO_SQ_BACKOFF_TIMEOUT_US', parsePositive) ?? SQ_BACKOFF_DEFAULT_MICROS
  );
}

/** How long the control plane waits for a peer; 0 means for ever. */
export function controlTimeoutMillis(environment: Environment): number {
  const parse = parseCount(0, 86_400_000);
  return readVariable(environment, 'MORI_IO_CP_TIMEOUT_MS', parse) ?? CONTROL_TIMEOUT_DEFAULT_MILLIS;
}

/** Only an explicit text that starts with 0 turns on XGMI beside or in place of RDMA. */
export function autoXgmiEnabled(environment: Environment): boolean {
  return (environment['MORI_DISABLE_AUTO_XGMI'] ?? '').startsWith('0');
}

/** What a NIC port can do. */
export interface NicLimits {
  readonly maxQpWr: number;
  readonly maxSge: number;
  readonly maxCqe: number;
  readonly maxMessageBytes: number;
  readonly vendor: 'mellanox' | 'broadcom' | 'ionic';
}

/** Sizes of one queue pair. */
export interface QueuePairSizes {
  /** Also the depth up to which credit is given. */
  readonly sendWr: number;
  readonly recvWr: number;
  readonly sge: number;
  readonly inlineBytes: number;
  readonly cqe: number;
}

const SEND_WR_DEFAULT = 8192;
const CQE_DEFAULT = 16_384;
const SGE_DEFAULT = 4;
const INLINE_DEFAULT = 64;
const IONIC = { maxSge: 2, maxQpWr: 32_767 };

/** Sizes of a queue pair from config, device and environment (A5); a text when the device cannot hold them. */
export function queuePairSizes(
  config: RdmaBackendConfig,
  nic: NicLimits,
  environment: Environment,
): QueuePairSizes | string {
  const size = (name: string): number | undefined =>
    readVariable(environment, `MORI_IO_QP_MAX_${name}`, parseSize);
  const isIonic = nic.vendor === 'ionic';
  const maxWr = isIonic ? Math.min(nic.maxQpWr, IONIC.maxQpWr) : nic.maxQpWr;
  const maxSge = isIonic ? Math.min(nic.maxSge, IONIC.maxSge) : nic.maxSge;
  const { enableNotification, notifPerQp } = config;
  if (enableNotification && maxWr < notifPerQp)
    return 'Device RQ capacity insufficient for configured notifPerQp';
  const sendWr = Math.min(size('SEND_WR') ?? (config.maxSendWr || SEND_WR_DEFAULT), maxWr);
  const recvWr = enableNotification ? Math.min(Math.max(size('RECV_WR') ?? 0, notifPerQp), maxWr) : sendWr;
  const cqe = Math.max(size('CQE') ?? (config.maxCqeNum || CQE_DEFAULT), sendWr + recvWr);
  const sge = size('SGE') ?? size('MSG_SGE') ?? (config.maxMsgSge || SGE_DEFAULT);
  const inlineBytes = size('INLINE_DATA') ?? (enableNotification ? INLINE_DEFAULT : 0);
  return { sendWr, recvWr, sge: Math.min(sge, maxSge), inlineBytes, cqe: Math.min(cqe, nic.maxCqe) };
}
