// All routes. Every other path is a page of the dashboard or not found.

import type { Route } from './route.js'
import { accessRoutes } from './routes/access.js'
import { bulkRoutes } from './routes/bulk.js'
import { flowRoutes } from './routes/flow.js'
import { jobEventRoutes } from './routes/job-events.js'
import { jobRoutes } from './routes/jobs.js'
import { outputRoutes } from './routes/output.js'
import { queueRoutes } from './routes/queues.js'
import { scheduleRoutes } from './routes/schedules.js'
import { systemRoutes } from './routes/system.js'
import { workRoutes } from './routes/work.js'

export const ROUTES: readonly Route[] = [
  ...systemRoutes,
  ...queueRoutes,
  ...flowRoutes,
  ...jobRoutes,
  ...outputRoutes,
  ...jobEventRoutes,
  ...bulkRoutes,
  ...scheduleRoutes,
  ...workRoutes,
  ...accessRoutes,
]
