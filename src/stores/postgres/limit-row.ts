// The row of a limit: its settings as columns, and as they were set.

import { type AdaptiveState, concurrencyOf } from '../../core/flow/adaptive.js'
import type { LimitSettings, Rate } from '../../core/flow/settings.js'
import type { LimitOrigin } from '../../core/flow/views.js'
import { type Statement, statement } from './statement.js'

/** Writes a limit, by a function that lets those who may not set limits write what a definition asks for. */
export const KEEP_LIMIT: Statement = statement(
  'keep_limit',
  'SELECT :schema.keep_limit($1::timestamptz, $2, $3, $4::json, $5::json, $6::integer, $7::float8, $8::float8, $9::float8, $10::boolean, $11::integer)::text',
)

/** The columns of a rate. */
export function rateValues(rate: Rate | null): readonly [number | null, number | null, number | null, boolean] {
  return [rate?.limit ?? null, rate?.perMs ?? null, rate?.burst ?? null, rate?.counts === 'cost']
}

/** The values of KEEP_LIMIT behind the time and its name. */
export function limitValues(
  settings: LimitSettings,
  origin: LimitOrigin,
  adaptive: AdaptiveState | null,
): readonly unknown[] {
  return [
    origin,
    JSON.stringify(settings),
    adaptive === null ? null : JSON.stringify(adaptive),
    settings.adaptive === null || adaptive === null ? settings.concurrency : concurrencyOf(settings.adaptive, adaptive),
    ...rateValues(settings.rate),
    settings.breaker?.probes ?? null,
  ]
}
