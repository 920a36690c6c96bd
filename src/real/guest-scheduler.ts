import type { RequestId } from '../base/topology.ts';
import type { ConnectorScheduler, FinishVerdict, RequestView, SchedulerEnv } from '../connector/plug.ts';
import { FINISHED, MATCHED } from './answers.ts';
import { readValue } from './guest-error.ts';
import type { GuestMeta, GuestRun } from './guest-run.ts';
import { configOf, requestName, toldRequest } from './told.ts';

/** The scheduler half of a guest: its hooks run to their end, in a process that has no threads. */

interface State {
  readonly run: GuestRun;
  readonly env: SchedulerEnv;
  hooks: ReadonlySet<string>;
  /** A hook has been called whose effect only the next step's metadata tells the ranks. */
  isTouched: boolean;
  finished: string[];
}

export function createGuestScheduler(run: GuestRun, env: SchedulerEnv): ConnectorScheduler {
  const state: State = { run, env, hooks: new Set(), isTouched: false, finished: [] };
  const { topology, spec, mode, blockTokens } = env;
  const { name } = topology.actors[spec.scheduler]!;
  const config = { ...configOf(topology, spec), name, mode, blockTokens, tpRank: 0 };
  const { hooks = [] } = run.ask({
    op: 'create',
    actor: spec.scheduler,
    side: 'scheduler',
    config,
    seed: 0,
    now: 0,
  });
  state.hooks = new Set(hooks);
  return {
    getNumNewMatchedTokens: (view, computed) => {
      run.meet(spec.engine, view.request, view.transfer);
      const told = call(state, 'get_num_new_matched_tokens', [toldRequest(topology, view), computed]);
      return told === undefined
        ? { tokens: 0, async: false }
        : readValue(MATCHED, told, 'get_num_new_matched_tokens');
    },
    updateStateAfterAlloc: (view, externalTokens) => {
      state.isTouched = true;
      call(state, 'update_state_after_alloc', [
        toldRequest(topology, view),
        [...view.blocks],
        externalTokens,
      ]);
    },
    buildConnectorMeta: (items) => buildMeta(state, items),
    hasMeta: () => state.isTouched && state.hooks.has('build_connector_meta'),
    requestFinished: (view) => finish(state, view, false),
    requestAborted: (view) => finish(state, view, true).keepBlocks,
    requestForgotten: () => undefined,
    census: () => (call(state, 'leak_count', []) as number | undefined) ?? 0,
  };
}

/** Undefined when the guest's class has no such hook. */
function call({ run, env, hooks }: State, hook: string, args: readonly unknown[]): unknown {
  if (!hooks.has(hook)) return undefined;
  return run.ask({ op: 'call', actor: env.spec.scheduler, hook, args, now: 0, budget: 0 }).value;
}

function buildMeta(
  state: State,
  items: Parameters<ConnectorScheduler['buildConnectorMeta']>[0],
): GuestMeta | null {
  state.isTouched = false;
  const rows = items.map(({ request, tokenFrom, tokenTo, blocks }) => ({
    request: requestName(request),
    tokenFrom,
    tokenTo,
    blocks,
  }));
  const packed = (call(state, 'build_connector_meta', [rows]) as string | null | undefined) ?? null;
  if (packed === null && items.length === 0) return null;
  const { finished } = state;
  state.finished = [];
  return { packed, finished };
}

function finish(state: State, view: RequestView, isAborted: boolean): FinishVerdict {
  const { env } = state;
  const told = call(state, 'request_finished', [
    toldRequest(env.topology, view, isAborted),
    [...view.blocks],
  ]);
  state.isTouched = true;
  state.finished.push(requestName(view.request as RequestId));
  if (told === undefined) return { keepBlocks: false, params: null };
  const { keep, params } = readValue(FINISHED, told, 'request_finished');
  if (params === null) return { keepBlocks: keep, params: null };
  const { remote_block_ids: remoteBlocks, remote_num_tokens: remoteTokens } = params;
  return {
    keepBlocks: keep,
    params: { transfer: view.transfer, remoteEngine: env.spec.engine, remoteBlocks, remoteTokens },
  };
}
