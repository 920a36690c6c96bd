import type { Message } from '../wire/messages.ts';
import { LIST_KEPT, type PlainOf, plainFields } from './plain.ts';

type Of<K extends Message['kind']> = Extract<Message, { readonly kind: K }>;

/** What a row adds for the messages whose content is no plain field. */
interface Additions {
  readonly generate: { readonly promptTokens: number };
  /** One entry of each list for each request of the step. */
  readonly runStep: {
    readonly requests: readonly number[];
    readonly tokenFrom: readonly number[];
    readonly tokenTo: readonly number[];
  };
  /** The first bytes, and how many there are. */
  readonly bytes: { readonly bytes: readonly number[]; readonly length: number };
}

export type MessageRow = {
  [K in Message['kind']]: K extends keyof Additions ? PlainOf<Of<K>> & Additions[K] : PlainOf<Of<K>>;
}[Message['kind']];

const ADD: { readonly [K in keyof Additions]: (message: Of<K>) => Additions[K] } = {
  generate: ({ prompt }) => ({ promptTokens: prompt.promptTokens }),
  runStep: ({ items }) => ({
    requests: items.map(({ request }) => request),
    tokenFrom: items.map(({ tokenFrom }) => tokenFrom),
    tokenTo: items.map(({ tokenTo }) => tokenTo),
  }),
  bytes: ({ bytes }) => ({ bytes: [...bytes.subarray(0, LIST_KEPT)], length: bytes.length }),
};

/** A message as a row: its plain fields, and of the rest what a reader wants. */
export function messageRow(message: Message): MessageRow {
  const add = ADD[message.kind as keyof Additions] as ((message: Message) => object) | undefined;
  return { ...plainFields(message), ...add?.(message) } as MessageRow;
}
