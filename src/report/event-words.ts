import type { CarriedRow, EventRow, LandingState } from '../record/events.ts';
import { messageInWords } from './message-words.ts';
import { type Names, nameOf } from './names.ts';

type Of<K extends EventRow['kind']> = Extract<EventRow, { readonly kind: K }>;

const WORDS: { readonly [K in EventRow['kind']]: (event: Of<K>, names: Names) => string } = {
  arrive: ({ request, promptTokens, outputTokens, ordinary }) =>
    `request ${request} arrives: ${promptTokens} prompt tokens, ${outputTokens} to generate${ordinary ? ', ordinary' : ''}`,
  abort: ({ request }) => `the client of request ${request} goes away`,
  crash: () => 'FAULT this rank dies, and its engine with it',
  lost: ({ message }, names) => `FAULT a message to it is lost: ${messageInWords(message, names)}`,
  stray: ({ message }, names) => `FAULT a stranger sends it: ${messageInWords(message, names)}`,
  message: ({ from, message }, names) =>
    `gets from ${nameOf(names, from)}: ${messageInWords(message, names)}`,
  timer: ({ timer, object }) => `timer ${timer} for ${object} fires`,
  turn: ({ thread }) => (thread === 0 ? 'takes a turn' : `thread ${thread} takes a turn`),
  joined: () => 'goes on, all ranks having joined',
  land: landingInWords,
  completion: ({ opcode, status, layer, transfer }) => {
    if (layer >= 0) return `sees the completion of layer ${layer} (transfer ${transfer}): ${status}`;
    if (opcode === 'recv') return 'sees a notification come in';
    return `sees the completion of ${opcode === 'send' ? 'a notification' : 'an empty write'}: ${status}`;
  },
  ended: ({ layer, transfer, code, status }) =>
    `sees that the batch of layer ${layer} (transfer ${transfer}) has ended: status ${code}, ${status}`,
  engineTimer: () => 'its engine has waited long enough for send-queue credit',
  overflow: () => 'its engine hears that a completion queue has overflowed',
};

/** What happened in a step, in words that go on from the actor's name. */
export function eventInWords(event: EventRow, names: Names): string {
  // The table's type says that each kind has words of its own; the compiler cannot follow that through the index.
  return (WORDS[event.kind] as (event: EventRow, names: Names) => string)(event, names);
}

/** A SEND is one, a chain several. */
const LANDINGS: { readonly [S in LandingState]: { readonly one: string; readonly many: string } } = {
  void: { one: 'is void: its queue pair was taken down', many: 'are void: their queue pair was taken down' },
  waits: { one: 'waits for its turn', many: 'wait for their turn' },
  flushed: {
    one: 'is flushed: its queue pair is broken',
    many: 'are flushed: their queue pair is broken',
  },
  'not-ready': { one: 'finds no receive here and is tried again', many: '' },
  lands: { one: 'lands here', many: 'land here' },
};

function landingInWords({ carried, from, state, nicFault }: Of<'land'>, names: Names): string {
  const { carries } = carried;
  const { one, many } = LANDINGS[state];
  const isUnderWay = state === 'lands' || state === 'not-ready';
  const fault = isUnderWay && nicFault !== '' ? `FAULT ${nicFault}: ` : '';
  const blocks = state === 'lands' && carries === 'batch' ? `, blocks ${carried.blocks.join(' ')}` : '';
  const verb = carries === 'notification' ? one : many;
  return `${fault}${carriedInWords(carried)} from ${nameOf(names, from)} ${verb}${blocks}`;
}

function carriedInWords(carried: CarriedRow): string {
  const { carries, workRequests, operation, layer, transfer, engineTransfer } = carried;
  switch (carries) {
    case 'notification':
      return `the notification of the engine's transfer ${engineTransfer}`;
    case 'credit':
      return `${workRequests} empty writes, to give slots back,`;
    case 'batch':
      return `${workRequests} ${operation}s of layer ${layer} (transfer ${transfer})`;
  }
}
