import type { BytesMessage, Message, PeerMessage } from '../wire/messages.ts';
import { encodePeerMessage, type PeerForms } from '../wire/peer-codec.ts';

/**
 * What may befall a message between peers. One row is one fault: its switch in a scenario, its draw, its effect and its
 * words. Scenario files, arbitraries, the network and the page SIMULATOR are all made from these rows.
 */
export interface MessageFault {
  /** Its switch among the hazards of a scenario. */
  readonly name: string;
  /** As a draw of the tape tells it. Part of the tape format: never renumber; 0 is no fault. */
  readonly value: number;
  /** Its key in the profile of a schedule. Part of what a seed means: never renumber. */
  readonly profileKey: number;
  /** What it does, for the page. */
  readonly does: string;
  /** How often it arrives; with 0 it is lost. A second copy comes one path latency after the first. */
  readonly copies: number;
  /** False: it may overtake earlier messages of its connection. */
  readonly inOrder: boolean;
  /** What arrives in its place; null when it arrives as it was sent. `object` is what the message is about. */
  readonly harm: ((message: Message, object: number, forms: PeerForms) => Message) | null;
}

export const MESSAGE_FAULTS = [
  {
    name: 'drops',
    value: 1,
    profileKey: 1,
    does: 'a message between peers is lost: 1 in 64 at level 1, 1 in 8 at level 2',
    copies: 0,
    inOrder: true,
    harm: null,
  },
  {
    name: 'duplicates',
    value: 2,
    profileKey: 2,
    does: 'it comes twice, the second time 10 us later',
    copies: 2,
    inOrder: true,
    harm: null,
  },
  {
    name: 'reorders',
    value: 3,
    profileKey: 3,
    does: 'it may overtake earlier messages of its connection',
    copies: 1,
    inOrder: false,
    harm: null,
  },
  {
    name: 'corruption',
    value: 4,
    profileKey: 4,
    does: 'one byte of its encoding is changed, and the bytes are delivered',
    copies: 1,
    inOrder: true,
    harm: changeOneByte,
  },
] as const satisfies readonly MessageFault[];

const BY_VALUE: ReadonlyMap<number, MessageFault> = new Map(
  MESSAGE_FAULTS.map((fault) => [fault.value, fault]),
);

/** The fault that a draw names; null for none, and for a number that a tape may hold but no fault has. */
export function messageFaultOf(value: number): MessageFault | null {
  return BY_VALUE.get(value) ?? null;
}

/** The message's real bytes with one of them changed. */
function changeOneByte(message: Message, object: number, forms: PeerForms): BytesMessage {
  // Between peers goes what connectors say, in a form of theirs or in bytes.
  const said = message as PeerMessage | BytesMessage;
  const isBytes = said.kind === 'bytes';
  const bytes = isBytes ? Uint8Array.from(said.bytes) : encodePeerMessage(said, forms);
  if (bytes.length > 0) bytes[object % bytes.length]! ^= 0x55;
  return { kind: 'bytes', port: isBytes ? said.port : 'notify', bytes };
}
