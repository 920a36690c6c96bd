/** Layouts of KV caches, and what one transfer between two of them takes (docs/LAYOUTS.md, docs/PLAN.md). */

export type { ContextView, LayerView, PartView } from './base/cache-view.ts';
export { UsageError } from './base/failure.ts';
export { type PlanRequest, planOf } from './cli/plan/compute.ts';
export { PLANNED_LAYOUTS } from './cli/plan/layout-choice.ts';
export { readModelConfig } from './cli/plan/model-config.ts';
export { CACHE_DTYPES, type CacheDtype, type ModelSpec } from './cli/plan/model-spec.ts';
export { MODEL_NAMES, modelByName } from './cli/plan/models.ts';
export { readSide, type SideSpec } from './cli/plan/side-spec.ts';
export { LAYOUT_NAMES, type LayoutName, type LayoutShape, layoutByName } from './kv/layouts.ts';
export { type CacheSpec, type CacheTensor, parseTensor } from './kv/parse.ts';
export { type LayerSide, planLayer } from './kv/plan.ts';
export { refusalOf } from './kv/refusal.ts';
export {
  type EngineSide,
  type GroupBlocks,
  planTransfer,
  type RankSide,
  type RankTransfer,
  refusalOfEngines,
  type Transfer,
} from './kv/transfer.ts';
export { headsOfRank, layView, sourceRanks, targetRanks } from './kv/view.ts';
export { planPicture } from './report/plan-picture.ts';
export type { PlanReport } from './report/plan-report.ts';
export { planText } from './report/plan-text.ts';
