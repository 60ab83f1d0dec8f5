// What `import … from 'holdfast'` gives.

export type { BulkPreview, BulkRequest, BulksOptions } from './client/bulk.js'
export type { Client } from './client/client.js'
export { type CheckedJobOptions, defineJob, type JobOptions } from './client/define-job.js'
export type {
  EnqueueEntries,
  EnqueueManyOptions,
  EnqueueResult,
  EnqueueTogetherOptions,
  EntryOptions,
} from './client/enqueue-many.js'
export type { EnqueueOptions, JobTarget } from './client/enqueue-options.js'
export type { FilterOptions } from './client/filter-options.js'
export type { CreatedKey, KeyOptions } from './client/keys.js'
export type { LimitOptions } from './client/limit-options.js'
export type {
  AuditNote,
  AuditOptions,
  CountOptions,
  DeadGroupsOptions,
  Health,
  JobList,
  ListOptions,
  SeriesOptions,
} from './client/look.js'
export type {
  ByOption,
  Cancelled,
  QueueOptions,
  Requeued,
  RequeuedMany,
  RequeueMany,
  Updated,
  UpdateOptions,
} from './client/operate.js'
export type { CronOptions, ScheduleOptions, ScheduleStatus } from './client/schedules.js'
export type { WaitOptions } from './client/wait.js'
export { type ConnectOptions, connect } from './connect.js'
export {
  type AbortCause,
  DropJob,
  type Handler,
  type HandlerFunction,
  type JobContext,
  type JobDefinition,
  RetryJob,
} from './core/definition.js'
export type { Duration } from './core/duration.js'
export {
  ERROR_CODES,
  type ErrorCode,
  HoldfastError,
  type HoldfastErrorOptions,
  isHoldfastError,
} from './core/errors.js'
export type { Emit, HoldfastEvent } from './core/events.js'
export { type Explanation, REASON_CODES, type Reason, type ReasonCode } from './core/explain.js'
export { parseFilter } from './core/filter.js'
export { formatFilter } from './core/filter-format.js'
export type {
  AttemptView,
  JobFilter,
  JobSummary,
  JobView,
  QueueSettings,
  QueueStats,
  QueueView,
  WorkerView,
} from './core/job.js'
export type { Queryable } from './core/job-store.js'
export type { StoredError } from './core/json.js'
export type { JobLimits } from './core/limits.js'
export type { Logger, LogLevel } from './core/logger.js'
export {
  type ApiKey,
  type AuditEntry,
  type AuditPage,
  BULK_ACTIONS,
  type BulkAction,
  type BulkState,
  type BulkView,
  type CountResult,
  type DeadGroup,
  type Depth,
  type Horizon,
  KEY_SCOPES,
  type KeyScope,
  type Overview,
  type PostgresHealth,
  type QueueOverview,
  type Rates,
  type SeriesPoint,
  type StoreHealth,
} from './core/operating.js'
export type { Clock, Ports, Random, Timer, Timers } from './core/ports.js'
export type { Backoff, RetryOptions, RetryPolicy } from './core/retry.js'
export type { CatchUp, Overlap } from './core/schedule.js'
export { type DeadReason, JOB_STATES, type JobState } from './core/states.js'
export type { Store } from './core/store.js'
export type { JobTracer, TracedAnswer, TracedEnd, TracedEnqueue } from './core/tracer.js'
export { type Holdfast, type HoldfastOptions, openHoldfast } from './holdfast.js'
export { VERSION } from './version.js'
export type { WorkerOptions } from './worker/options.js'
export type { Worker } from './worker/worker.js'
