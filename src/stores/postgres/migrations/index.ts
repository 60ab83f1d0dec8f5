// The schema's migrations in the order of their numbers: one file each, NNNN_what.ts.

import { lifeOfAJob } from './0001_life_of_a_job.js'
import { operate } from './0002_operate.js'
import { closeDays } from './0003_close_days.js'
import { restByTime } from './0004_rest_by_time.js'
import { cancels } from './0005_cancels.js'
import { linkChecks } from './0006_link_checks.js'
import { unblockFunction } from './0007_unblock.js'
import { tenants } from './0008_tenants.js'
import { raiseRest } from './0009_raise_rest.js'
import { noAnalyze } from './0010_no_analyze.js'
import { flow } from './0011_flow.js'
import { runningByGroup } from './0012_running_by_group.js'
import { startedByGroup } from './0013_started_by_group.js'
import { replacePayload } from './0014_replace.js'
import { claimFlow } from './0015_claim_flow.js'
import { flowGuards } from './0016_flow_guards.js'
import { keysByNext } from './0017_keys_by_next.js'
import { claimBatches } from './0018_claim_batches.js'
import { timeline } from './0019_timeline.js'
import { kept } from './0020_kept.js'
import { signals } from './0021_signals.js'
import { output } from './0022_output.js'
import { children } from './0023_children.js'
import { marks } from './0024_marks.js'
import { claimAhead } from './0025_claim_ahead.js'
import { enqueueFunction } from './0026_enqueue_function.js'
import { deleteJobs } from './0028_delete_jobs.js'
import { early } from './0029_early.js'
import type { Migration } from './migration.js'

/** The migrations this version of the package knows, in order. */
export const MIGRATIONS: readonly Migration[] = [
  lifeOfAJob,
  operate,
  closeDays,
  restByTime,
  cancels,
  linkChecks,
  unblockFunction,
  tenants,
  raiseRest,
  noAnalyze,
  flow,
  runningByGroup,
  startedByGroup,
  replacePayload,
  claimFlow,
  flowGuards,
  keysByNext,
  claimBatches,
  timeline,
  kept,
  signals,
  output,
  children,
  marks,
  claimAhead,
  enqueueFunction,
  deleteJobs,
  early,
]
