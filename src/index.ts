// What `import … from 'holdfast'` gives.

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
export type { LimitOptions } from './client/limit-options.js'
export type {
  ByOption,
  Cancelled,
  JobList,
  ListOptions,
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
export type { StoredError } from './core/json.js'
export type { JobLimits } from './core/limits.js'
export type { Clock, Ports, Random, Timer, Timers } from './core/ports.js'
export type { Backoff, RetryOptions, RetryPolicy } from './core/retry.js'
export type { CatchUp, Overlap } from './core/schedule.js'
export { type DeadReason, JOB_STATES, type JobState } from './core/states.js'
export type { Queryable, Store } from './core/store.js'
export { type Holdfast, type HoldfastOptions, openHoldfast } from './holdfast.js'
export { VERSION } from './version.js'
export type { WorkerOptions } from './worker/options.js'
export type { Worker } from './worker/worker.js'
