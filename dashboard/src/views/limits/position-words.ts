// How the positions of a breaker are called.

import type { Breaker } from '../../api/types.js'

const WORDS = { closed: 'closed', open: 'open', half_open: 'half open' } as const

export function positionWord(position: Breaker['position']): string {
  return WORDS[position]
}
