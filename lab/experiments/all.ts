// The experiments by name, in the order they are described in.

import { adaptive } from './adaptive.js'
import { breaker } from './breaker.js'
import { careful } from './careful.js'
import { claimBatch } from './claim-batch.js'
import { drain } from './drain.js'
import { exactness } from './exactness.js'
import type { Experiment } from './experiment.js'
import { failovers } from './failovers.js'
import { fairness } from './fairness.js'
import { flapping } from './flapping.js'
import { imports } from './import.js'
import { jobLoss } from './job-loss.js'
import { lease } from './lease.js'
import { outbox } from './outbox.js'
import { parked } from './parked.js'
import { poison } from './poison.js'
import { retention } from './retention.js'
import { shutdown } from './shutdown.js'
import { sustained } from './sustained.js'
import { timed } from './timed.js'
import { workers } from './workers.js'

export const EXPERIMENTS: Readonly<Record<string, Experiment>> = {
  workers,
  'claim-batch': claimBatch,
  'job-loss': jobLoss,
  drain,
  flapping,
  poison,
  timed,
  shutdown,
  lease,
  sustained,
  retention,
  fairness,
  exactness,
  breaker,
  adaptive,
  careful,
  parked,
  failovers,
  outbox,
  import: imports,
}
