import { whereOfActor } from '../breach.ts';
import { breachesOf, type Invariant } from '../invariant.ts';

const SITES = { effect: '{owner} {part}' } as const;

const says = (text: string) => ({ site: 'effect', says: text }) as const;

/** What cannot be done, whoever asks for it: the world looks at each effect before it performs it. */
export const IMPOSSIBLE = breachesOf('I12', SITES, {
  'no-effect': says('{actor} asks for {value}, which is no effect'),
  'sends-to-nobody': says('{actor} sends to {to}, who does not exist'),
  'sends-no-message': says('{actor} sends {value}, which is no message'),
  'odd-timer': says('{actor} asks to {effect} timer {timer} for object {object}'),
  'odd-time': says('{actor} arms a timer for [{earliest}, {latest}]'),
  'odd-turn': says('{actor} asks for a turn of thread {thread} in {delayMicros} us'),
  'odd-join': says('{actor} joins phase {phase} for {delayMicros} us'),
  'odd-descriptor': says('{actor} connects to {peer} with a descriptor that is none: {value}'),
  'unreadable-descriptor': says('{actor} connects to {peer} with a descriptor that cannot be read: {code}'),
  'has-no-nic': says('{actor} asks to {effect} {peer}, but is no rank and has no NIC'),
  'peer-unknown': says('{actor} asks to {effect} {peer}, who does not exist'),
  'peer-has-no-nic': says('{actor} asks to {effect} {peer}, which is no rank and has no NIC'),
  'peer-of-own-engine': says('{actor} asks to {effect} {peer}, which is of its own engine'),
  'posts-no-batch': says('{actor} posts a batch that is none'),
  'batch-odd-number': says('{actor} posts a batch that has {field} {value}, which is not a whole number'),
  'batch-odd-operation': says('{actor} posts a batch that is a {operation}, neither read nor write'),
  'batch-no-queue-pair': says('{actor} posts a batch that is for queue pair {queuePair} of {count}'),
  'batch-no-layer': says('{actor} posts a batch that is of layer {layer} of {count}'),
  'batch-no-request': says('{actor} posts a batch that is of request {request} of {count}'),
  'batch-no-block-list': says('{actor} posts a batch that has no list of {side} blocks'),
  'batch-no-block': says('{actor} posts a batch that names {side} block {block} of {count}'),
  'batch-no-runs': says('{actor} posts a batch that has no runs'),
  'batch-odd-runs': says('{actor} posts a batch that has {count} numbers as its runs, not three for each'),
  'batch-odd-run': says(
    '{actor} posts a batch that is not counted in bytes: run {run} of {bytes} bytes from local offset {local} to remote offset {remote}',
  ),
  'batch-leaves-region': says(
    '{actor} posts a batch that leaves a region: run {run} of {bytes} bytes from local offset {local} to remote offset {remote}, the regions have {localBytes} and {remoteBytes} bytes',
  ),
  'never-connected': says('{actor} posts a batch towards {peer}, to which it never connected'),
});

const BREACHES = breachesOf('I12', SITES, {
  'request-of-another': says(
    '{actor} posts for request {request} in transfer {transfer}, which is of request {assigned}',
  ),
});

/** What is only for the engine and the proxy to ask for. */
export const NOT_FOR_GUESTS = breachesOf('I12', SITES, {
  unreadable: says('{actor} asks for what cannot be read: {value}'),
  'not-of-scheduler-side': says(
    '{actor} asks for the effect {effect}; the scheduler side may send and note, no more',
  ),
  'joins-ranks': says('{actor} joins the ranks of its engine, which is for the engine to do'),
  'turn-of-engine': says(
    "{actor} asks for a turn of thread 0, which is the engine's; threads of a connector count from 1",
  ),
  'not-between-peers': says('{actor} sends what is no message between peers: {value}'),
  'message-without-form': says('{actor} sends "{message}", which is not among its messages: {forms}'),
  'message-not-plain': says('{actor} sends "{message}", which {oddity}'),
  'note-of-engine': says('{actor} makes a note that is not for a connector: {value}'),
  'odd-note': says('{actor} makes an odd note: {value}'),
});

export const I12 = {
  id: 'I12',
  name: 'possible-request',
  sentence: 'what an actor asks of its engine and its NIC can be done',
  sites: SITES,
  breaches: { ...IMPOSSIBLE, ...BREACHES, ...NOT_FOR_GUESTS },
  hears: {
    /** A batch names a transfer, and with it the request that the proxy gave it to. */
    addressed({ topology, assignments, fail }, actor, { transfer, request }) {
      const assigned = assignments.get(transfer);
      if (assigned === undefined || assigned.request === request) return;
      const ids = { actor, request, transfer, assigned: assigned.request };
      fail(BREACHES['request-of-another'], whereOfActor(topology, actor, 'post'), ids);
    },
  },
  raisedBy:
    'sim/effect-border.ts (numbers, peers, queue pairs, regions), sim/guest-effects.ts (what is not for a connector), sim/nic-side.ts `post` (never connected)',
  finds: 'the planted bugs of `test/canary/mistakes.test.ts`',
} as const satisfies Invariant;
