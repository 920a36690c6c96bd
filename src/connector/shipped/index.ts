import type { Connector } from '../plug.ts';
import { SHIPPED_GOALS } from './goals.ts';
import { FORMS } from './messages.ts';
import { createShippedScheduler } from './scheduler-side.ts';
import { createShippedWorker } from './worker-side.ts';

/** The hardened connector of this project. */
export const shipped: Connector = {
  name: 'shipped',
  messages: FORMS,
  goals: SHIPPED_GOALS,
  createScheduler: createShippedScheduler,
  createWorker: createShippedWorker,
};
