// The filter that matches the jobs of a group of dead letters.

import type { DeadGroup } from '../../api/types.js'
import { quote } from '../../filter/terms.js'

export function groupFilter({ fingerprint }: Pick<DeadGroup, 'fingerprint'>, queue: string | null): string {
  return `state:dead fingerprint:${quote(fingerprint)}${queue === null ? '' : ` queue:${quote(queue)}`}`
}
