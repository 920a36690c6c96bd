import { decode } from '@msgpack/msgpack';
import type { Topology } from '../base/topology.ts';
import type { Effect, Input } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import { FATE } from './nic-fates.ts';
import type { Flight } from './nic-lanes.ts';
import type { NicEvent } from './nic-side.ts';

/** Words for a person. Only called for recorded runs. */

export function describeMessage(message: Message): string {
  switch (message.kind) {
    case 'generate':
      return `${message.leg} leg of request ${message.request} (${message.prompt.promptTokens} prompt tokens, transfer ${message.transfer})`;
    case 'answer':
      return `answer to the ${message.leg} leg of request ${message.request}${message.ok ? '' : `: failed, ${message.cause}`}`;
    case 'abort':
      return `abort of request ${message.request}`;
    case 'engineDown':
      return `connection to engine ${message.engine} lost`;
    case 'runStep':
      return `step ${message.step}: ${message.items.map((item) => `request ${item.request} tokens ${item.tokenFrom}..${item.tokenTo - 1}`).join(', ') || 'no request'}`;
    case 'stepDone':
      return `step ${message.step} done`;
    case 'report':
      return `report: ${(['sent', 'received', 'failed'] as const)
        .filter((end) => message[end].length > 0)
        .map((end) => `${end} request ${message[end].join(' ')}`)
        .join(', ')}`;
    case 'metaRequest':
      return 'handshake request';
    case 'metaReply':
      return 'handshake reply';
    case 'claim':
      return `claim of transfer ${message.transfer}`;
    case 'grant':
      return `grant ${message.grant} for transfer ${message.transfer}: blocks ${message.blocks.join(' ')}, slots ${message.slotFrom}..${message.slotTo - 1}`;
    case 'refuse':
      return `refusal of transfer ${message.transfer}`;
    case 'seal':
      return `seal of transfer ${message.transfer}${message.ok ? '' : ' (failed)'}`;
    case 'sealAck':
      return `acknowledgement of the seal of transfer ${message.transfer}`;
    case 'revoke':
      return `revoke of transfer ${message.transfer}`;
    case 'bytes':
      return `${message.port} message ${describeBytes(message.bytes)}`;
  }
}

/** Text as text, a msgpack map by its fields, anything else in hex. */
function describeBytes(bytes: Uint8Array): string {
  const printable = bytes.length > 0 && bytes.every((byte) => byte >= 32 && byte < 127);
  if (printable) return `"${String.fromCharCode(...bytes.subarray(0, 48))}"`;
  const fields = mapFields(bytes);
  if (fields !== null) return fields;
  const hex = [...bytes.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  return `<${hex}${bytes.length > 8 ? ' ...' : ''}>, ${bytes.length} bytes`;
}

function mapFields(bytes: Uint8Array): string | null {
  try {
    const value: unknown = decode(bytes);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
    const fields = Object.entries(value).filter(
      ([, field]) => typeof field !== 'object' || Array.isArray(field),
    );
    return `{${fields
      .map(([name, field]) => `${name} ${Array.isArray(field) ? field.join(' ') : String(field)}`)
      .join(', ')
      .slice(0, 90)}}`;
  } catch {
    return null;
  }
}

export function describeInput(topology: Topology, input: Input): string {
  switch (input.kind) {
    case 'message':
      return `gets from ${topology.actors[input.from]?.name ?? 'a stranger'}: ${describeMessage(input.message)}`;
    case 'timer':
      return `timer ${input.timer} for ${input.object} fires`;
    case 'turn':
      return input.thread === 0 ? 'takes a turn' : `thread ${input.thread} takes a turn`;
    case 'joined':
      return 'goes on, all ranks having joined';
    case 'completion':
      return `sees the completion of batch ${input.tag}, status ${input.code}`;
  }
}

/** The effect in words; '' for one that no reader needs. */
export function describeEffect(topology: Topology, effect: Effect): string {
  switch (effect.kind) {
    case 'send':
      return `sends to ${topology.actors[effect.to]!.name}: ${describeMessage(effect.message)}`;
    case 'post': {
      const { operation, runs, transfer, layer, peer } = effect.batch;
      return `posts ${runs.length / 3} ${operation}s of layer ${layer} (transfer ${transfer}) towards ${topology.actors[peer]!.name}`;
    }
    case 'reset':
      return `resets its queue pairs towards ${topology.actors[effect.peer]!.name}`;
    case 'fence':
      return `fences the queue pairs from ${topology.actors[effect.peer]!.name}`;
    case 'note':
      return describeNote(effect.note);
    default:
      return '';
  }
}

function describeNote(note: Extract<Effect, { kind: 'note' }>['note']): string {
  switch (note.kind) {
    case 'say':
      return note.text();
    case 'allocate':
      return `gives blocks ${note.blocks.join(' ')} to request ${note.request}`;
    case 'share':
      return `shares cached blocks ${note.blocks.join(' ')} with request ${note.request}`;
    case 'free':
      return `frees blocks ${note.blocks.join(' ')} of request ${note.request}`;
    case 'assign':
      return `gives request ${note.request} to engines ${note.prefill} and ${note.decode}, transfer ${note.transfer}`;
    case 'outcome':
      return `request ${note.request} ${note.outcome}${note.cause === '' ? '' : ` (${note.cause})`}`;
    case 'refused':
      return `refuses: ${note.cause}`;
    case 'died':
      return `thread ${note.thread} dies: ${note.cause}`;
    case 'spin':
      return `${note.thread} polls for ${note.waitsFor}`;
    case 'misread':
      return `reads a wrong cell of request ${note.request} in layer ${note.layer}`;
    default:
      return '';
  }
}

const FATE_NAMES = new Map<number, string>(Object.entries(FATE).map(([name, fate]) => [fate, name]));

/** What lands, or what the NIC does to it. */
export function describeLanding({ open, chain, message, fate }: Flight, from: string): string {
  const fault = fate === FATE.none ? '' : `FAULT ${FATE_NAMES.get(fate)}: `;
  if (message !== null)
    return `${fault}notification of the engine's transfer ${message.id} from ${from} arrives here`;
  if (open === null)
    return `${fault}an empty write from ${from} arrives here, which gives send-queue slots back`;
  const { batch } = open;
  return `${fault}${chain!.end - chain!.first} ${batch.operation}s of layer ${batch.layer} (transfer ${batch.transfer}) from ${from} land here, blocks ${batch.remoteBlocks.join(' ')}`;
}

/** What the engine of a rank is told. */
export function describeNicEvent(event: NicEvent): string {
  switch (event.kind) {
    case 'entry': {
      const { completion, open } = event;
      const { opcode, status } = completion;
      if (open !== null)
        return `sees the completion of layer ${open.batch.layer} (transfer ${open.batch.transfer}): ${status}`;
      return opcode === 'recv'
        ? 'sees a notification come in'
        : `sees the completion of a notification: ${status}`;
    }
    case 'ended': {
      const { batch, status } = event.open;
      return `sees that the batch of layer ${batch.layer} (transfer ${batch.transfer}) has ended: status ${status.code}, ${status.message}`;
    }
    case 'timer':
      return 'its engine has waited long enough for send-queue credit';
    case 'overflow':
      return 'its engine hears that a completion queue has overflowed';
  }
}
