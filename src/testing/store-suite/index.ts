// The conformance suite: every fact a store must keep, in the order of a job's life. Run it against a store of your own with
// the test and expect of your test runner.

import { attemptFacts } from './attempts.js'
import { auditFacts } from './audit.js'
import { bulkFacts } from './bulks.js'
import { buryFacts } from './bury.js'
import { cancelFacts } from './cancel.js'
import { chainStartFacts } from './chain-starts.js'
import { chainFacts } from './chains.js'
import { childrenFacts, childrenFlowFacts } from './children.js'
import { claimFacts } from './claim.js'
import { claimOnEnqueueFacts } from './claim-on-enqueue.js'
import { claimOrderFacts } from './claim-order.js'
import { concurrencyFacts } from './concurrency.js'
import { type Facts, register, type SuiteContext } from './context.js'
import { deadGroupFacts } from './dead-groups.js'
import { deleteFacts, deleteFlowFacts, deleteKeptFacts } from './delete.js'
import { endingFacts } from './endings.js'
import { enqueueFacts } from './enqueue.js'
import { filterFacts } from './filters.js'
import { fireFacts } from './fire.js'
import { flowBatchFacts } from './flow-batches.js'
import { flowBreakerFacts } from './flow-breakers.js'
import { flowCountFacts } from './flow-counts.js'
import { flowDepthFacts } from './flow-depth.js'
import { flowFilterFacts } from './flow-filters.js'
import { flowGroupFacts } from './flow-groups.js'
import { flowHoldFacts } from './flow-holds.js'
import { flowKeptFacts } from './flow-kept.js'
import { flowLimitFacts } from './flow-limits.js'
import { flowLookFacts } from './flow-looks.js'
import { flowOrderedFacts } from './flow-ordered.js'
import { flowOrderedSwitchFacts } from './flow-ordered-switch.js'
import { flowQueueFacts } from './flow-queues.js'
import { flowRateFacts } from './flow-rates.js'
import { flowRecordFacts } from './flow-records.js'
import { flowSettingFacts } from './flow-settings.js'
import { flowTurnFacts } from './flow-turns.js'
import { flowWaitFacts } from './flow-waits.js'
import { getFacts } from './get.js'
import { hostileFacts } from './hostile-values.js'
import { keptFacts } from './kept.js'
import { keyFacts } from './keys.js'
import { leaseFacts } from './leases.js'
import { listFacts } from './list.js'
import { newestFirstFacts, newestFirstFlowFacts } from './newest-first.js'
import { outputFacts } from './output.js'
import { overviewFacts } from './overview.js'
import { promoteFacts } from './promote.js'
import { pruneFacts } from './prune.js'
import { queueFacts } from './queues.js'
import { repetitionFacts } from './repetition.js'
import { replaceFacts } from './replace.js'
import { replaceFlowFacts } from './replace-flow.js'
import { replaceLifeFacts } from './replace-lives.js'
import { requeueFacts } from './requeue.js'
import { rescueFacts } from './rescue.js'
import { scheduleFacts } from './schedules.js'
import { settleFacts } from './settle.js'
import { unheldFacts } from './settle-unheld.js'
import { signalFacts, signalFlowFacts } from './signals.js'
import { statsFacts } from './stats.js'
import { updateFacts } from './update.js'
import { workerFacts } from './workers.js'

export type { Capability, Expect, Expectation, SuiteContext } from './context.js'

const FACTS: readonly Facts[] = [
  enqueueFacts,
  keyFacts,
  chainStartFacts,
  chainFacts,
  claimFacts,
  claimOrderFacts,
  newestFirstFacts,
  claimOnEnqueueFacts,
  leaseFacts,
  settleFacts,
  unheldFacts,
  attemptFacts,
  promoteFacts,
  rescueFacts,
  scheduleFacts,
  fireFacts,
  cancelFacts,
  requeueFacts,
  deleteFacts,
  buryFacts,
  updateFacts,
  queueFacts,
  bulkFacts,
  auditFacts,
  getFacts,
  listFacts,
  filterFacts,
  statsFacts,
  overviewFacts,
  deadGroupFacts,
  endingFacts,
  workerFacts,
  pruneFacts,
  hostileFacts,
  repetitionFacts,
  concurrencyFacts,
]

const FLOW_FACTS: readonly Facts[] = [
  flowGroupFacts,
  flowTurnFacts,
  flowBatchFacts,
  flowOrderedFacts,
  flowOrderedSwitchFacts,
  flowQueueFacts,
  flowLimitFacts,
  flowRateFacts,
  flowWaitFacts,
  flowKeptFacts,
  flowSettingFacts,
  flowBreakerFacts,
  flowHoldFacts,
  flowDepthFacts,
  flowRecordFacts,
  flowCountFacts,
  flowLookFacts,
  flowFilterFacts,
]

/** Registers every fact as a test. Each opens a store of its own through `openStore` and closes it again. */
export function storeSuite(context: SuiteContext): void {
  for (const facts of FACTS) register(context, facts)
  for (const facts of FLOW_FACTS) register(context, facts, 'flow')
  for (const facts of [replaceFacts, replaceLifeFacts]) register(context, facts, 'replace')
  register(context, replaceFlowFacts, 'replace', 'flow')
  for (const facts of [keptFacts, signalFacts, outputFacts, childrenFacts]) register(context, facts, 'kept')
  register(context, deleteKeptFacts, 'kept')
  for (const facts of [deleteFlowFacts, newestFirstFlowFacts]) register(context, facts, 'flow')
  for (const facts of [signalFlowFacts, childrenFlowFacts]) register(context, facts, 'kept', 'flow')
}
