import { spawn } from 'node:child_process';
import { closeSync, fstatSync, readSync } from 'node:fs';
import { BrokenBelief } from '../base/failure.ts';
import { describeThrown } from '../base/thrown.ts';
import { packageFile } from '../node/package-file.ts';
import { ANSWER, type Answer } from './answers.ts';
import { FrameError, FrameReader, writeFrame } from './frames.ts';
import { openPipes } from './pipes.ts';

/** A Python process that answers one question at a time. It is asked as a function is called: the caller waits. */

export interface ChildOptions {
  readonly python: string;
  /** Longest time that one answer may take before the child ends itself and tells where its threads stand. */
  readonly secondsMax: number;
}

export const SECONDS_MAX = 20;
const COMPLAINT_BYTES = 8_000;
/** Lines of a stack that tell nothing of the guest. */
const OURS = /\/moriarty_guest\/|\/lib\/python|^(Current thread|Thread) 0x/;

export class Child {
  readonly #down: number;
  readonly #up: number;
  readonly #reader: FrameReader;
  readonly #complaints: number;
  #isOpen = true;

  /** @throws BrokenBelief GUEST-START */
  constructor({ python, secondsMax }: ChildOptions) {
    const { down, up, complaints } = openPipes();
    const child = spawn(python, ['-B', '-s', '-m', 'moriarty_guest', String(secondsMax)], {
      stdio: [down.reader, up.writer, complaints],
      // The order of a set of texts depends on the seed of their hash.
      env: { ...process.env, PYTHONPATH: packageFile('python'), PYTHONHASHSEED: '0' },
    });
    // Told by the end of the pipe, where somebody waits for it.
    child.on('error', () => undefined);
    child.unref();
    closeSync(down.reader);
    closeSync(up.writer);
    this.#down = down.writer;
    this.#up = up.reader;
    this.#reader = new FrameReader(up.reader);
    this.#complaints = complaints;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** @throws BrokenBelief GUEST-DIED or GUEST-FRAME; then the child is gone. */
  ask(question: object): Answer {
    let told: unknown;
    try {
      this.#write(question);
      told = this.#reader.read();
    } catch (error) {
      if (error instanceof FrameError) return this.#lose('GUEST-FRAME', error.message);
      return this.#lose('GUEST-DIED', describeThrown(error));
    }
    if (told === null) return this.#lose('GUEST-DIED', 'the Python process has ended');
    const answer = ANSWER.safeParse(told);
    if (answer.success) return answer.data;
    const { path, message } = answer.error.issues[0]!;
    return this.#lose('GUEST-FRAME', `an answer of another form: ${path.join('.')}: ${message}`);
  }

  /** Who does not read any more may have said something before. */
  #write(question: object): void {
    try {
      writeFrame(this.#down, question);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
    }
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    // It reads the end of its questions and ends.
    for (const end of [this.#down, this.#up, this.#complaints]) closeSync(end);
  }

  #lose(code: string, what: string): never {
    const said = this.#stderr();
    this.close();
    throw new BrokenBelief(code, said === '' ? `${what}, and said nothing` : `${what}; it said: ${said}`);
  }

  /** The last of what the child wrote on standard error, in one line and without the frames of our own code. */
  #stderr(): string {
    const { size } = fstatSync(this.#complaints);
    const bytes = new Uint8Array(Math.min(size, COMPLAINT_BYTES));
    const got = readSync(this.#complaints, bytes, 0, bytes.length, size - bytes.length);
    const lines = new TextDecoder().decode(bytes.subarray(0, got)).split('\n');
    const told = lines.map((line) => line.trim()).filter((line) => line !== '' && !OURS.test(line));
    return told.join(' | ');
  }
}
