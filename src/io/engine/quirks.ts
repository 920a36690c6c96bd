/**
 * Where MoRI-IO does what few would expect (mori-io.md, section 0 and A3 to A16). Each is a switch of its own: on, the
 * engine does as the library does; off, as one would wish. `says` is the library, `off` what we do instead.
 */
export const QUIRKS = {
  popKeeps: {
    says: 'Pop consumes nothing; a reused id drives its counter below zero and is never seen again (0.2).',
    off: 'Pop removes the entry, and the id may be used afresh.',
  },
  emptyBatchNotifies: {
    says: 'An empty batch on a session still notifies the target (0.3).',
    off: 'An empty batch is a success that nobody hears of.',
  },
  assertsAbort: {
    says: 'Wrong arguments end the process: vector lengths on the engine, TCP or Unknown as a backend (0.4, A4).',
    off: 'They are refused with a code.',
  },
  environmentExits: {
    says: 'No GPU beside a NIC, or a port in use, ends the process from within CreateBackend (0.20).',
    off: 'CreateBackend throws.',
  },
  creationThrows: {
    says: 'What fails while a session is made is an exception, and the status stays INIT (0.5).',
    off: 'The status gets ERR_BAD_STATE with the text.',
  },
  batchStopsEarly: {
    says: 'BatchRead and BatchWrite stop at the first entry without a backend; later statuses stay INIT (0.6).',
    off: 'Every entry is looked at.',
  },
  successFlips: {
    says: 'A failed notification turns a transfer that has succeeded into an error (0.8).',
    off: 'Success is only told once the notification was posted.',
  },
  innerFailureHides: {
    says: 'Unsignaled work requests carry wr_id 0, so their failure counts as a receive and its cause is lost (0.9).',
    off: 'They carry the id of their record, and the first error is the one reported.',
  },
  lastChainSignals: {
    says: 'Only the last chain of a queue pair asks for a completion, so a postBatchSize may wait for itself (0.10).',
    off: 'Every chain asks for one.',
  },
  creditLeaks: {
    says: 'A submission that fails forgets the credit of its earlier unsignaled chains for ever (A8).',
    off: 'They are kept as orphans, and come back with the next completion of their queue pair.',
  },
  degradedSticks: {
    says: 'A partial post marks the queue pair degraded; only a failed completion with a record clears it (0.11).',
    off: 'What was posted comes back with the next completion, and nothing is refused meanwhile.',
  },
  failedPostDegradesAll: {
    says: 'A failed post degrades every other queue pair of its session that still owes the batch a signal (A8).',
    off: 'It concerns its own queue pair alone.',
  },
  sliceValidation: {
    says: 'With workers each slice is checked by itself: a bad entry fails the call, the other slices move (0.12).',
    off: 'The whole batch is checked first.',
  },
  workersUseFirstKeys: {
    says: "Workers give every queue pair the first one's memory keys, wrong on any other NIC (0.13).",
    off: 'Each queue pair uses its own.',
  },
  rangeWraps: {
    says: 'Offset and size are added in 64 bits, so a range may wrap past the check (0.14).',
    off: 'The sum cannot wrap.',
  },
  tiesShuffle: {
    says: 'Above 16 requests, those of one remote offset are posted as an unstable sort leaves them (A7).',
    off: 'They keep the order of the caller.',
  },
  copiesUnchecked: {
    says: 'XGMI and FABRIC check no range at all (0.14).',
    off: 'They check as RDMA does.',
  },
  lateBackendForgets: {
    says: 'Memory and engines registered before CreateBackend are unknown to that backend (0.15).',
    off: 'A new backend is told what is registered.',
  },
  pointerSharesSlot: {
    says: 'Two registrations of one pointer share a slot; deregistering either kills both (0.16).',
    off: 'Each has a region and keys of its own.',
  },
  receivesOnlyIfNotified: {
    says: 'A side without notification posts no receives, so a peer that notifies stalls for ever (0.18).',
    off: 'Receives are always posted; what nobody wants is dropped.',
  },
  endsWhileMoving: {
    says: 'The first error is told at once, while other work requests of the transfer may still move bytes (A7, A11).',
    off: 'It is told when the last of them has ended, so that the memory is free then.',
  },
  clientStallsControl: {
    says: 'A client that stops inside a control frame holds up all others until the receive timeout (0.19).',
    off: 'Each connection is read by itself.',
  },
  brokenForGood: {
    says: 'A failed queue pair is never made again: all that is posted to it is flushed (A11).',
    off: 'It is taken down and connected anew; submissions wait meanwhile.',
  },
  deadKeysStay: {
    says: 'A session keeps the keys of local memory that was deregistered, and its queue pair dies of them (A14).',
    off: 'The call is refused with ERR_BAD_STATE.',
  },
  deregisterTrustsId: {
    says: 'DeregisterMemory goes by the id alone: a foreign descriptor takes away whatever has that id (A4).',
    off: 'A descriptor that is not the registered one is a no-op.',
  },
  emptyHidesUnknown: {
    says: 'A descriptor of size 0 with an unknown id passes the size check of a session (A13).',
    off: 'An unknown id is refused.',
  },
  removeStrands: {
    says: 'Removing a backend leaves its transfers IN_PROGRESS for ever (A4).',
    off: 'They fail with ERR_BAD_STATE.',
  },
  restartKeepsQueuePairs: {
    says: 'Another process registered under a known key gets the dead queue pairs and old keys of the first (A4).',
    off: 'They are dropped when the descriptor changes.',
  },
  configUnchecked: {
    says: 'qpPerTransfer below 1 and postBatchSize 0 are taken without complaint (A5).',
    off: 'CreateBackend throws.',
  },
  readNotifiesEarly: {
    says: 'The notification of a READ does not wait for its data (A10).',
    off: 'It is sent when the last byte has arrived.',
  },
} as const satisfies Record<string, { readonly says: string; readonly off: string }>;

export type QuirkName = keyof typeof QUIRKS;
export type Quirks = Readonly<Record<QuirkName, boolean>>;
export const FIDELITIES = ['sound', 'mori'] as const;
export type Fidelity = (typeof FIDELITIES)[number];

export const QUIRK_NAMES = Object.keys(QUIRKS) as QuirkName[];

const BY_FIDELITY: { readonly [fidelity in Fidelity]: Quirks } = {
  mori: allOf(true),
  sound: allOf(false),
};

function allOf(on: boolean): Quirks {
  return Object.freeze(Object.fromEntries(QUIRK_NAMES.map((name) => [name, on])) as Quirks);
}

/** All switches on, or all off. */
export function quirksOf(fidelity: Fidelity): Quirks {
  return BY_FIDELITY[fidelity];
}
