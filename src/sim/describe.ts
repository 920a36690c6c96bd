import type { Topology } from '../base/topology.ts';
import type { Effect, Input } from '../wire/machine.ts';
import type { Message } from '../wire/messages.ts';
import { decodeMsgpack } from '../wire/msgpack.ts';
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
  if (printable) return `"${[...bytes.subarray(0, 48)].map((byte) => String.fromCharCode(byte)).join('')}"`;
  const fields = mapFields(bytes);
  if (fields !== null) return fields;
  const hex = [...bytes.subarray(0, 8)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  return `<${hex}${bytes.length > 8 ? ' ...' : ''}>, ${bytes.length} bytes`;
}

function mapFields(bytes: Uint8Array): string | null {
  try {
    const value: unknown = decodeMsgpack(bytes);
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
      return `fences ${topology.actors[effect.peer]!.name}`;
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
    case 'external':
      return `waits for tokens ${note.tokenFrom}..${note.tokenTo - 1} of request ${note.request}`;
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

/** What is due to land, and what becomes of it as far as that is known before it does. */
export function describeLanding(flight: Flight, from: string): string {
  const { lane, effect, cancelled, open, message } = flight;
  const what = `${describeFlight(flight)} from ${from}`;
  // A SEND is one, a chain several.
  const say = (one: string, many: string): string => `${what} ${message === null ? many : one}`;
  if (cancelled)
    return say('is void: its queue pair was taken down', 'are void: their queue pair was taken down');
  if (lane.flights[0] !== flight) return say('waits for its turn', 'wait for their turn');
  if (lane.queuePair.broken)
    return say('is flushed: its queue pair is broken', 'are flushed: their queue pair is broken');
  const fault = effect === null ? '' : `FAULT ${effect.name}: `;
  const isStalled =
    message !== null && (effect?.notReadyMicros !== undefined || lane.queuePair.peer?.receives === 0);
  if (isStalled) return `${fault}${what} finds no receive here and is tried again`;
  const blocks = open === null || message !== null ? '' : `, blocks ${open.batch.remoteBlocks.join(' ')}`;
  return `${fault}${say('lands here', 'land here')}${blocks}`;
}

function describeFlight({ open, message, workRequests }: Flight): string {
  if (message !== null) return `the notification of the engine's transfer ${message.id}`;
  if (open === null) return `${workRequests} empty writes, to give slots back,`;
  const { batch } = open;
  return `${workRequests} ${batch.operation}s of layer ${batch.layer} (transfer ${batch.transfer})`;
}

/** What the engine of a rank is told. */
export function describeNicEvent(event: NicEvent): string {
  switch (event.kind) {
    case 'entry': {
      const { completion, open } = event;
      const { opcode, status } = completion;
      if (open !== null)
        return `sees the completion of layer ${open.batch.layer} (transfer ${open.batch.transfer}): ${status}`;
      if (opcode === 'recv') return 'sees a notification come in';
      return `sees the completion of ${opcode === 'send' ? 'a notification' : 'an empty write'}: ${status}`;
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
