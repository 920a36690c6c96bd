import type { ActorId } from '../../src/base/topology.ts';
import type {
  Connector,
  ConnectorScheduler,
  ConnectorWorker,
  SchedulerEnv,
  WorkerEnv,
} from '../../src/connector/plug.ts';
import { shipped } from '../../src/connector/shipped/index.ts';
import type { Effect, Emit, PostedBatch } from '../../src/wire/machine.ts';
import type { Message } from '../../src/wire/messages.ts';

/** Ways to spoil the shipped connector from outside, through the plug and without a change of its code. */

export function plantInScheduler(
  change: (inner: ConnectorScheduler, env: SchedulerEnv) => Partial<ConnectorScheduler>,
): Connector {
  return {
    ...shipped,
    name: 'canary',
    createScheduler(env) {
      const inner = shipped.createScheduler(env);
      return { ...inner, ...change(inner, env) };
    },
  };
}

export function plantInWorker(
  change: (inner: ConnectorWorker, env: WorkerEnv) => Partial<ConnectorWorker>,
): Connector {
  return {
    ...shipped,
    name: 'canary',
    createWorker(env) {
      const inner = shipped.createWorker(env);
      return { ...inner, ...change(inner, env) };
    },
  };
}

/** Every effect of a worker goes through `change`, which may pass on another one, several or none. */
export function plantInEffects(change: (env: WorkerEnv) => (effect: Effect, pass: Emit) => void): Connector {
  return plantInWorker((inner, env) => {
    const filter = change(env);
    const through =
      (emit: Emit): Emit =>
      (effect) =>
        filter(effect, emit);
    return {
      startLoadKv: (meta, at, emit) => inner.startLoadKv(meta, at, through(emit)),
      waitForLayerLoad: (layer, at, emit) => inner.waitForLayerLoad(layer, at, through(emit)),
      saveKvLayer: (layer, at, emit) => inner.saveKvLayer(layer, at, through(emit)),
      waitForSave: (at, emit) => inner.waitForSave(at, through(emit)),
      step: (at, input, emit) => inner.step(at, input, through(emit)),
    };
  });
}

export function plantInBatches(change: (batch: PostedBatch, env: WorkerEnv) => PostedBatch): Connector {
  return plantInEffects((env) => (effect, pass) => {
    pass(effect.kind === 'post' ? { ...effect, batch: change(effect.batch, env) } : effect);
  });
}

export function plantInMessages(
  change: (message: Message, to: ActorId, env: WorkerEnv) => { to: ActorId; message: Message } | null,
): Connector {
  return plantInEffects((env) => (effect, pass) => {
    if (effect.kind !== 'send') return pass(effect);
    const changed = change(effect.message, effect.to, env);
    if (changed !== null) pass({ kind: 'send', ...changed });
  });
}
