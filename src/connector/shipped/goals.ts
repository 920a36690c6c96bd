import type { Emit } from '../../wire/machine.ts';

/** What a campaign against this connector hopes to reach, besides what the engines around it do. */
export const SHIPPED_GOALS = [
  'handshake-shared',
  'handshake-retried',
  'empty-save-step',
  'grant-before-request',
  'grant-stale-refused',
  'claim-before-lease',
  'claim-refused',
  'idle-rank-released',
  'write-deferred',
  'send-queue-full',
  'abort-while-moving',
  'seal-repeated',
  'lease-expired',
  'revoke-confirmed',
  'revoke-fenced',
  'queue-pair-rebuilt',
  'queue-pair-reset',
] as const;

export function goal(emit: Emit, name: (typeof SHIPPED_GOALS)[number]): void {
  emit({ kind: 'note', note: { kind: 'goal', name } });
}
