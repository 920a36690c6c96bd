/**
 * What a program may use: attack a connector of its own, shrink and replay a run, put it into words, run a request trace.
 * It needs nothing of Node. The other entries are in docs/API.md; everything else is inside.
 */

export { UsageError } from './base/failure.ts';
export { layTopology, type Mode, type Shape, type Topology } from './base/topology.ts';
export type {
  Connector,
  ConnectorScheduler,
  ConnectorWorker,
  Finished,
  FinishVerdict,
  Matched,
  Progress,
  RequestView,
  SchedulerEnv,
  WorkerEnv,
} from './connector/plug.ts';
export { shipped } from './connector/shipped/index.ts';
export { type Campaign, type CampaignOptions, type Finding, runCampaign } from './explore/campaign.ts';
export type { HarnessFailure, HarnessFailures } from './explore/harness-failure.ts';
export { type Replay, readReplayLine, readReplayText, replayLine } from './explore/replay-line.ts';
export { type Run, type RunOptions, runSeed, runTape } from './explore/run.ts';
export { readScenario } from './explore/scenario-file.ts';
export { scenarioByName } from './explore/scenario-names.ts';
export { type Shrunk, shrinkSeed, shrinkTape } from './explore/shrink.ts';
export {
  runTrace,
  TRACE_DEFAULTS,
  type TraceOptions,
  type TraceSummary,
  tracePages,
} from './explore/trace-run.ts';
export type { Hazards } from './faults/hazards.ts';
export type { Completion } from './io/fabric.ts';
export { ALL_FINE, HEADS_MAX, type Kernels, OUTSIDE_REGION, REFUSED } from './kv/kernels.ts';
export { NO_ROOM, NOT_COVERED } from './kv/row-kernels.ts';
export type { Invariant } from './oracle/invariant.ts';
export { type BreachName, INVARIANTS, type InvariantId, type Site } from './oracle/registry.ts';
export { type FailureKey, sameFailure, type Violation } from './oracle/verdict.ts';
export { type ChoicePolicy, IN_TURN } from './proxy/choose.ts';
export type { RunRecord, StepRow } from './record/record.ts';
export { PAGE, type TimelineOptions, timeline } from './report/timeline.ts';
export { violationSchema } from './report/violation-schema.ts';
export { detailInWords, placeInWords, violationInWords, waitInWords } from './report/violation-words.ts';
export { instantiateKernels, instantiateKernelsAsync, type LoadedKernels } from './sim/load-kernels.ts';
export { CHECK_PAGES, CHECK_SIZES, createWorldMemory, type WorldMemory } from './sim/memory.ts';
export { readTrace, type TracedRequest } from './sim/request-trace.ts';
export type { RunResult } from './sim/run-spec.ts';
export type { Scenario } from './sim/scenario.ts';
export type { TapeEntry } from './sim/tape.ts';
export type { Effect, Emit, Input, Note, PostedBatch, Wait } from './wire/machine.ts';
export type { Message, Prompt, StepItem } from './wire/messages.ts';
export { AS_WRITTEN_MIX } from './zoo/as-written/mix.ts';
export { SHIPPED_MIX } from './zoo/shipped.ts';
export type { Parts, Specimen } from './zoo/specimen.ts';
