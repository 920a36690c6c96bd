import { BrokenBelief } from '../../base/failure.ts';
import { type MoveTable, move } from '../../base/moves.ts';
import type { Progress } from '../../connector/plug.ts';
import type { Emit } from '../../wire/machine.ts';
import { ThreadDeath } from './faults.ts';

/**
 * The threads of one worker process as generators. A thread runs alone until it yields, and it yields wherever a real
 * one could be overtaken: at a lock, a queue, an event and between the read and the write of a shared variable. Each
 * yield asks the world for a turn, so the tape decides who goes on; a blocked thread asks for none until it is woken.
 * The main thread is the rank's own loop: it goes on whenever the rank host calls the hook it stands in again.
 */

/** What a thread says when it yields: go on at another turn, or block until the signal is raised. */
export type Pause = typeof TURN | Signal;
export type Routine = Generator<Pause, void, void>;

export const TURN = 'turn';
/** Time from a thread's yield to its next action. */
const TURN_MICROS = 1;

/** A condition variable. Whoever waits tests its own condition again after each wake-up. */
export interface Signal {
  readonly waiting: Thread[];
}

/** A mutex; `holder` names the thread that has it, '' when it is free. */
export interface Lock {
  holder: string;
  readonly freed: Signal;
}

type ThreadPhase = 'runnable' | 'blocked' | 'dead';

const THREAD_MOVES: MoveTable<ThreadPhase, 'Raised' | 'Waits' | 'Threw'> = {
  title: 'Thread of the connector',
  triggers: {
    Raised: 'a signal that it waits for is raised',
    Waits: 'it waits for a signal',
    Threw: 'an exception left it',
  },
  moves: {
    runnable: { Waits: 'blocked', Threw: 'dead' },
    blocked: { Raised: 'runnable' },
    dead: {},
  },
};

interface Thread {
  readonly number: number;
  readonly name: string;
  routine: Routine | null;
  phase: ThreadPhase;
}

export const MAIN = 0;

export interface Threads {
  readonly all: Map<number, Thread>;
  readonly main: Thread;
}

export function createThreads(): Threads {
  const main: Thread = { number: MAIN, name: 'main', routine: null, phase: 'runnable' };
  return { all: new Map([[MAIN, main]]), main };
}

export function createSignal(): Signal {
  return { waiting: [] };
}

export function createLock(): Lock {
  return { holder: '', freed: createSignal() };
}

/** A thread that exists from the start and sleeps until `signal` is first raised. */
export function addThread(
  threads: Threads,
  number: number,
  name: string,
  routine: Routine,
  signal: Signal,
): void {
  const thread: Thread = { number, name, routine, phase: 'blocked' };
  threads.all.set(number, thread);
  signal.waiting.push(thread);
}

/** A thread that starts now. */
export function spawn(threads: Threads, number: number, name: string, routine: Routine, emit: Emit): void {
  const thread: Thread = { number, name, routine, phase: 'runnable' };
  threads.all.set(number, thread);
  askTurn(thread, emit);
}

/** Wakes every thread that waits for the signal. */
export function raise(signal: Signal, emit: Emit): void {
  for (const thread of signal.waiting.splice(0)) {
    move(THREAD_MOVES, thread, 'Raised');
    askTurn(thread, emit);
  }
}

export function* acquire(lock: Lock, holder: string): Routine {
  yield TURN;
  while (lock.holder !== '') yield lock.freed;
  lock.holder = holder;
}

export function release(lock: Lock, emit: Emit): void {
  lock.holder = '';
  raise(lock.freed, emit);
}

/** The world gives a turn to a thread that asked for one. */
export function takeTurn(threads: Threads, number: number, emit: Emit): void {
  const thread = threads.all.get(number);
  if (thread === undefined || thread.phase !== 'runnable' || thread.routine === null) return;
  const pause = resume(thread, thread.routine, emit);
  if (pause === TURN) askTurn(thread, emit);
}

/** One call of a hook by the rank host: starts the hook's routine or goes on with it; it has ended on 'done'. */
export function callHook(threads: Threads, makeRoutine: () => Routine, emit: Emit): Progress {
  const { main } = threads;
  if (main.phase !== 'runnable') return 'again';
  main.routine ??= makeRoutine();
  if (resume(main, main.routine, emit) !== null || isDead(main)) return 'again';
  main.routine = null;
  return 'done';
}

/** The main thread stands within a hook. */
export function isInHook(threads: Threads): boolean {
  return threads.main.routine !== null;
}

/** Read through a call, so that the compiler does not hold on to what the phase was before. */
function isDead(thread: Thread): boolean {
  return thread.phase === 'dead';
}

/** The main thread's turns are the host's. */
function askTurn(thread: Thread, emit: Emit): void {
  if (thread.number !== MAIN) emit({ kind: 'turn', thread: thread.number, delayMicros: TURN_MICROS });
}

/** Runs a thread up to its next yield; null when it has ended. An exception ends this thread and no other. */
function resume(thread: Thread, routine: Routine, emit: Emit): Pause | null {
  try {
    const { done, value } = routine.next();
    if (done === true) return null;
    if (value !== TURN) {
      move(THREAD_MOVES, thread, 'Waits');
      value.waiting.push(thread);
    }
    return value;
  } catch (error) {
    if (error instanceof BrokenBelief || !(error instanceof Error)) throw error;
    move(THREAD_MOVES, thread, 'Threw');
    const name = error instanceof ThreadDeath ? error.thread : thread.name;
    emit({ kind: 'note', note: { kind: 'died', thread: name, cause: error.message } });
    return null;
  }
}
