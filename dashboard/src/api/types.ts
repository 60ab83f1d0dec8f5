// The types of the API's answers and bodies: those that the server's schemas are checked against.

import type { Bulk } from '../../../src/server/schemas/operating.js'

export type BulkAction = Bulk['action']

export type { JobState } from '../../../src/core/states.js'
export type {
  Breaker,
  Group,
  GroupPage,
  JobFlowView,
  Limit,
  LimitDetails,
  LimitPage,
  QueueFlow,
} from '../../../src/server/schemas/flow.js'
export type {
  ChangesBody,
  CloneBody,
  Count,
  Enqueued,
  Explanation,
  Job,
  JobError,
  JobPage,
  JobSummary,
} from '../../../src/server/schemas/jobs.js'
export type {
  AuditEntry,
  AuditPage,
  Bulk,
  BulkBody,
  DryRun,
  Me,
  Outbox,
  Schedule,
  SignInBody,
  Warning,
  Worker,
} from '../../../src/server/schemas/operating.js'
export type {
  DeadGroup,
  Overview,
  QueueOverview,
  QueueSettings,
  SeriesPoint,
} from '../../../src/server/schemas/queues.js'
