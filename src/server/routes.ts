// Every route there is. What is not in this table is not served, but for the pages of the dashboard.

import type { Route } from './route.js'
import { accessRoutes } from './routes/access.js'
import { bulkRoutes } from './routes/bulk.js'
import { jobRoutes } from './routes/jobs.js'
import { queueRoutes } from './routes/queues.js'
import { scheduleRoutes } from './routes/schedules.js'
import { systemRoutes } from './routes/system.js'

export const ROUTES: readonly Route[] = [
  ...systemRoutes,
  ...queueRoutes,
  ...jobRoutes,
  ...bulkRoutes,
  ...scheduleRoutes,
  ...accessRoutes,
]
