import { type ChildProcess, spawn } from 'node:child_process';
import { createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { frames, send } from '../contract/engine-talk.mjs';

const SCRIPT = fileURLToPath(new URL('../contract/engine-child.mjs', import.meta.url));

/** A process with an engine of its own that does what it is told: test/contract/engine-child.mjs says what it can. */
export class OtherProcess {
  readonly child: ChildProcess;
  readonly #socket: Socket;
  readonly #replies: AsyncGenerator<Record<string, unknown>>;

  private constructor(child: ChildProcess, socket: Socket) {
    this.child = child;
    this.#socket = socket;
    socket.on('error', () => {});
    this.#replies = frames(socket);
  }

  static async start(): Promise<OtherProcess> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const child = spawn(process.execPath, [SCRIPT, String(port)], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    const socket = await new Promise<Socket>((resolve) => server.once('connection', resolve));
    server.close();
    return new OtherProcess(child, socket);
  }

  get pid(): number {
    return this.child.pid!;
  }

  async ask<Reply = unknown>(order: string, given: object = {}): Promise<Reply> {
    send(this.#socket, { order, ...given });
    return (await this.next()) as Reply;
  }

  /** What it says next, asked or not. */
  async next(): Promise<Record<string, unknown>> {
    const { value, done } = await this.#replies.next();
    if (done === true) throw new TypeError('the other process is gone');
    if ('thrown' in value) throw new TypeError(`the other process: ${value['thrown']}`);
    return value;
  }

  /** Does not wait for an answer: there will be none. */
  tell(order: string, given: object): void {
    send(this.#socket, { order, ...given });
  }

  /** How it ended: its exit code, or the signal. */
  async ended(signal?: NodeJS.Signals): Promise<number | string> {
    if (signal !== undefined) this.child.kill(signal);
    const { exitCode, signalCode } = this.child;
    const how =
      exitCode ??
      signalCode ??
      (await new Promise<number | string>((resolve) =>
        this.child.once('exit', (code, killed) => resolve(code ?? killed!)),
      ));
    this.#socket.destroy();
    return how;
  }
}
