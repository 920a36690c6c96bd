import { BrokenBelief, UsageError } from '../base/failure.ts';
import type { TransferId } from '../base/topology.ts';
import type { Connector } from '../connector/plug.ts';
import type { Answer } from './answers.ts';
import { Child, type ChildOptions } from './child.ts';
import { GuestError, GuestThreadDeath } from './guest-error.ts';
import { type GuestDescription, readGuestFile } from './guest-file.ts';
import type { GuestRun } from './guest-run.ts';
import { createGuestScheduler } from './guest-scheduler.ts';
import { createGuestWorker } from './guest-worker.ts';

/** A connector that lives in a Python process. The process outlives a run; a run begins with every module as it was loaded. */

/** Children that may be lost one after the other before nobody tries again. */
const LOSSES_MAX = 3;

export interface Guest {
  readonly name: string;
  readonly python: string;
  /** For one run. */
  connectorOfRun(): Connector;
  close(): void;
}

/** @throws UsageError GUEST-SOURCE when the guest cannot be loaded; BrokenBelief as Child does. */
export function openGuest(description: GuestDescription, options: ChildOptions): Guest {
  const host = new Host(description, options);
  const { name } = description;
  return {
    name,
    python: host.python,
    close: () => host.close(),
    connectorOfRun: () => connectorOf(name, host),
  };
}

function connectorOf(name: string, host: Host): Connector {
  let isBegun = false;
  const transfers = new Map<string, TransferId>();
  const run: GuestRun = {
    meet: (engine, request, transfer) => transfers.set(`${engine} ${request}`, transfer),
    transferOf: (engine, request) => transfers.get(`${engine} ${request}`) ?? 0,
    ranks: new Map(),
    ask(question) {
      if (!isBegun) host.begin();
      isBegun = true;
      const answer = host.ask(question);
      const { error, died } = answer;
      if (error?.kind === 'limit') throw new BrokenBelief('GUEST-STATEMENTS', error.text);
      if (error !== undefined) throw new GuestError(error);
      if (died !== undefined) throw new GuestThreadDeath(died[0]!);
      return answer;
    },
  };
  return {
    name,
    createScheduler: (env) => createGuestScheduler(run, env),
    createWorker: (env) => createGuestWorker(run, env),
  };
}

class Host {
  readonly #description: GuestDescription;
  readonly #options: ChildOptions;
  #child: Child;
  #losses = 0;
  readonly python: string;

  constructor(description: GuestDescription, options: ChildOptions) {
    this.#description = description;
    this.#options = options;
    this.#child = new Child(options);
    this.python = this.#load();
  }

  begin(): void {
    if (this.#child.isOpen) this.#losses = 0;
    else this.#replace();
    this.ask({ op: 'begin' });
  }

  ask(question: object): Answer {
    if (!this.#child.isOpen) throw new BrokenBelief('GUEST-DIED', 'the Python process has ended before');
    return this.#child.ask(question);
  }

  close(): void {
    this.#child.close();
  }

  #replace(): void {
    if (++this.#losses > LOSSES_MAX)
      throw new BrokenBelief(
        'GUEST-DIED',
        `${LOSSES_MAX} Python processes were lost in a row; none is started again`,
      );
    this.#child = new Child(this.#options);
    this.#load();
  }

  /** The version of Python. */
  #load(): string {
    const { files, scheduler, worker, hooks, path, hash } = this.#description;
    const now = readGuestFile(path).hash;
    if (now !== hash)
      throw new BrokenBelief(
        'GUEST-CHANGED',
        `the guest's files were changed: ${hash} when it was read, now ${now}`,
      );
    const sides = { scheduler: scheduler.split(':'), worker: worker.split(':') };
    const { error, python } = this.#child.ask({ op: 'load', files, hooks, ...sides });
    if (error !== undefined) {
      const where = error.stack?.[0] === undefined ? '' : `, at ${error.stack[0]}`;
      throw new UsageError('GUEST-SOURCE', `${path}: ${error.text}${where}`);
    }
    if (python === undefined) throw new BrokenBelief('GUEST-FRAME', 'the answer to load has no version');
    return python;
  }
}
