// What a measurement of cost is given, and what it reports.

import type { Message } from '../children.js'

/** Where handlers run. */
export const PLACES = ['in the worker', 'two processes', 'two threads'] as const
export type Place = (typeof PLACES)[number]

export interface CostAssignment {
  readonly place: Place
  readonly jobs: number
  readonly payloadBytes: number
}

export interface CostReport extends Message {
  readonly kind: 'cost'
  /** Processor time for each job, in microseconds. */
  readonly workerUs: number
  readonly childrenUs: number
  readonly jobsPerS: number
}
