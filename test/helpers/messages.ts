import { FORMS, type ShippedMessage, type ShippedName } from '../../src/connector/shipped/messages.ts';
import type { Message } from '../../src/wire/messages.ts';
import { encodePeerMessage } from '../../src/wire/peer-codec.ts';

/** Whether it is that message of the shipped protocol. */
export function isNamed<N extends ShippedName>(message: Message, name: N): message is ShippedMessage<N> {
  return message.kind === 'peer' && message.name === name;
}

/** A message of the shipped protocol, honest or forged, as a frame with a true checksum. */
export function frameOf(message: object): Uint8Array {
  return encodePeerMessage({ name: '', ...message, kind: 'peer' }, FORMS);
}
