import { type PlanRequest, planOf } from '../../../src/cli/plan/compute.ts';
import type { ModelSpec } from '../../../src/cli/plan/model-spec.ts';
import { modelByName } from '../../../src/cli/plan/models.ts';
import { readSide } from '../../../src/cli/plan/side-spec.ts';
import type { PlanPair, PlanReport } from '../../../src/report/plan-report.ts';

export type Changes = Partial<Omit<PlanRequest, 'model' | 'prefill' | 'decode'>>;

export function requestOf(
  model: string | ModelSpec,
  prefill: string,
  decode: string,
  changes: Changes = {},
): PlanRequest {
  const spec = typeof model === 'string' ? modelByName(model)! : model;
  return {
    model: spec,
    dtype: spec.dtype!,
    prefill: readSide('--prefill', prefill),
    decode: readSide('--decode', decode),
    tokens: 4096,
    prefix: 0,
    mode: 'write',
    nic: 'plain',
    chunking: false,
    placement: 'contiguous',
    sliding: 'whole',
    ...changes,
  };
}

export function planned(...args: Parameters<typeof requestOf>): PlanReport {
  return planOf(requestOf(...args));
}

/** A model with K and V in bfloat16 and nothing special about it. */
export function modelWith(layers: number, heads: number, headSize: number): ModelSpec {
  const windows = new Array<number>(layers).fill(0);
  return { name: 'made-up', layers, heads, headSize, latent: null, dtype: 'bfloat16', windows };
}

export function each<Field extends keyof PlanPair>(report: PlanReport, field: Field): PlanPair[Field][] {
  return report.pairs.map((pair) => pair[field]);
}
