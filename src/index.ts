// What `import … from 'holdfast'` gives.

export type { ApplyFlowOptions, FlowApplied, FlowChange } from './client/apply-flow.js'
export type { Backfilled, BackfillOptions, TicksOptions, TickView } from './client/backfill.js'
export { type BatchCallback, type BatchEnd, batchEnd, batchHandler, type EnqueueBatchOptions } from './client/batch.js'
export type { BulkPreview, BulkRequest, BulksOptions } from './client/bulk.js'
export type { Client } from './client/client.js'
export type { PayloadCodec, SealedBytes } from './client/codec-store.js'
export type { LimitOptions } from './client/define-job.js'
export { type CheckedJobOptions, defineJob, type JobOptions, type OutputOptions } from './client/define-job.js'
export type { DoubtfulList, DoubtfulOptions } from './client/doubtful.js'
export type { EnqueueEntries, EnqueueManyOptions, EnqueueTogetherOptions, EntryOptions } from './client/enqueue-many.js'
export type { EnqueueOptions } from './client/enqueue-options.js'
export type { EventsOptions } from './client/event-iterator.js'
export type { FilterOptions } from './client/filter-options.js'
export type { GroupList, GroupsOptions, JobFlowStatus, LimitUsersOptions } from './client/flow-calls.js'
export type { FlowDocument, FlowProblem } from './client/flow-document.js'
export type { DefinitionFlowOptions, FlowOptions } from './client/flow-options.js'
export type { EventsDropped } from './client/followed-jobs.js'
export type {
  ByOption,
  Cancelled,
  Deleted,
  DeleteOptions,
  QueueOptions,
  Requeued,
  RequeuedMany,
  RequeueMany,
  TypedUpdateOptions,
  Updated,
  UpdateOptions,
} from './client/job-actions.js'
export type { JobEventsOptions } from './client/job-events.js'
export type { EnqueueResult, JobHandle } from './client/job-handle.js'
export type { JobEvent } from './client/job-history.js'
export type { JobKeyOptions } from './client/key-options.js'
export type { CreatedKey, KeyOptions } from './client/keys.js'
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
export type { EnqueueCall, EnqueueCallJob, Middleware } from './client/middleware.js'
export type { EventName, EventNamed, JobOutcomeEvent } from './client/named-events.js'
export type { JobTarget } from './client/prepare.js'
export type { ReadOptions } from './client/read-output.js'
export type { CronOptions, ScheduleOptions, ScheduleStatus } from './client/schedules.js'
export type { SignalOptions, SignalSent } from './client/signals.js'
export type { TypedWaitOptions, WaitOptions } from './client/wait.js'
export { type AesOptions, aes256gcm, type GzipOptions, gzip } from './codecs.js'
export { type ConnectOptions, connect } from './connect.js'
export {
  type AbortCause,
  type ChildEnd,
  type Completed,
  DropJob,
  type EffectCall,
  type Handler,
  type HandlerFunction,
  type Isolate,
  type JobContext,
  type JobDefinition,
  type JobFailure,
  type ResultsOf,
  RetryJob,
  type Signalled,
  type WaitForChildrenOptions,
  type WaitForOptions,
} from './core/definition.js'
export type { Durability } from './core/durability.js'
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
export type { JobFlow } from './core/flow/job-flow.js'
export type {
  BreakerOptions,
  GroupOptions,
  GroupOverrideOptions,
  NamedLimitOptions,
  QueueFlowOptions,
  RateOption,
} from './core/flow/resolve.js'
export type { GroupOverride, GroupSettings, LimitSettings, QueueFlow, Rate } from './core/flow/settings.js'
export type {
  BreakerView,
  GroupView,
  LimitView,
  Neighbour,
  StoppedGroup,
  TrackView,
} from './core/flow/views.js'
export type { JobFilter } from './core/job-filter.js'
export type { Queryable } from './core/job-store.js'
export type { StoredError } from './core/json.js'
export type { DoubtfulEffect, OutputChunk, StepView, WaitView } from './core/kept/kept.js'
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
export type {
  AttemptView,
  JobSummary,
  JobView,
  QueueSettings,
  QueueStats,
  QueueView,
  WorkerView,
} from './core/views.js'
export { type Holdfast, type HoldfastOptions, openHoldfast } from './holdfast.js'
export type { HostOptions } from './host/options.js'
export type { PasswordOption, TlsOptions, UserPool } from './stores/postgres/access-options.js'
export type { FailoverMemoryOptions } from './stores/postgres/failover-options.js'
export { VERSION } from './version.js'
export type { WorkerOptions } from './worker/options.js'
export type { Worker } from './worker/worker.js'
