import { Worker } from 'node:worker_threads';

/**
 * Tasks for worker threads, whose results are taken in the order of the tasks. A thread gets one task at a time, and answers
 * each message with one.
 */
export interface Work<Task, Result> {
  /** The built file that each thread runs, and what it is given at its start. */
  readonly file: string;
  readonly data: unknown;
  readonly threads: number;
  /** Null when there are no more; asked again after each answer. */
  readonly next: () => Task | null;
  /** False when no more is wanted. */
  readonly take: (done: Done<Task, Result>) => boolean;
}

export type Done<Task, Result> =
  | { readonly task: Task; readonly result: Result }
  /** The thread that had it is gone: why. */
  | { readonly task: Task; readonly lost: string };

/** Room for young objects: with the 16 MB that Node gives a thread it collects more often, which cost 8 % of the time. */
const LIMITS = { maxYoungGenerationSizeMb: 64 } as const;

/** Tasks that are given out while an earlier one is still open: what is waiting to be taken has a bound. */
const AHEAD_MAX = 256;

interface Thread<Task> {
  readonly worker: Worker;
  /** The number and the task that it has. */
  at: number;
  task: Task | null;
}

/** Ends when all that was given out is taken, `take` says so, or no thread is left. */
export async function workInOrder<Task, Result>(work: Work<Task, Result>): Promise<void> {
  const pool = new Pool(work);
  try {
    await pool.ended;
  } finally {
    await pool.close();
  }
}

class Pool<Task, Result> {
  readonly ended: Promise<void>;
  readonly #work: Work<Task, Result>;
  readonly #threads: Thread<Task>[] = [];
  readonly #waiting = new Map<number, Done<Task, Result>>();
  #end: () => void = () => undefined;
  #given = 0;
  #taken = 0;
  #over = false;

  constructor(work: Work<Task, Result>) {
    this.#work = work;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    for (let count = 0; count < work.threads; count++) this.#start();
    this.#giveOut();
  }

  async close(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #start(): void {
    const worker = new Worker(this.#work.file, { workerData: this.#work.data, resourceLimits: LIMITS });
    const thread: Thread<Task> = { worker, at: -1, task: null };
    worker.on('message', (result: Result) => this.#answered(thread, (task) => ({ task, result })));
    worker.on('error', (error) => this.#lose(thread, error.message));
    worker.on('exit', (code) => this.#lose(thread, `it ended with exit code ${code}`));
    this.#threads.push(thread);
  }

  #giveOut(): void {
    for (const thread of this.#threads) {
      if (thread.task !== null || this.#over || this.#given - this.#taken >= AHEAD_MAX) continue;
      const task = this.#work.next();
      if (task === null) break;
      thread.at = this.#given++;
      thread.task = task;
      thread.worker.postMessage(task);
    }
    if (this.#over || this.#given === this.#taken) this.#end();
  }

  #answered(thread: Thread<Task>, done: (task: Task) => Done<Task, Result>): void {
    const { at, task } = thread;
    if (task === null) return;
    thread.task = null;
    this.#waiting.set(at, done(task));
    this.#takeInOrder();
    this.#giveOut();
  }

  #takeInOrder(): void {
    for (let done = this.#waiting.get(this.#taken); done !== undefined && !this.#over; ) {
      this.#waiting.delete(this.#taken++);
      this.#over = !this.#work.take(done);
      done = this.#waiting.get(this.#taken);
    }
  }

  /** Its task is taken as lost; the other threads go on. */
  #lose(thread: Thread<Task>, why: string): void {
    const place = this.#threads.indexOf(thread);
    if (this.#over || place < 0) return;
    this.#threads.splice(place, 1);
    this.#answered(thread, (task) => ({ task, lost: why }));
    if (this.#threads.length === 0) this.#end();
  }
}
