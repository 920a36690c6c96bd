import type { Socket } from 'node:net';

export function send(socket: Socket, message: object): void;
export function frames(socket: Socket): AsyncGenerator<Record<string, unknown>>;
export function fill(memory: Uint8Array, seed: number): void;
