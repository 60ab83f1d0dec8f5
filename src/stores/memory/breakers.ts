// Breakers of limits: where they stand, and how they came there.

import { BREAKER_MOVES_MAX, type Breaker, type Outcomes } from '../../core/flow/breaker.js'
import type { KeptLimit } from './memory.js'

/** What led to a move: the outcomes that counted, and who asked for it; null where it moved by itself. */
interface Cause extends Outcomes {
  readonly by: string | null
  readonly nowMs: number
}

/** Moves a breaker and keeps the move. One that only counts on has no history. */
export function moveBreaker(limit: KeptLimit, to: Breaker, { ok, failed, by, nowMs }: Cause): void {
  const { position: from } = limit.breaker
  const isMove = from !== to.position || limit.breaker.forced !== to.forced
  limit.breaker = to
  if (!isMove) return
  const move = { at: new Date(nowMs), from, to: to.position, ok, failed, by }
  limit.history = [move, ...limit.history].slice(0, BREAKER_MOVES_MAX)
}
