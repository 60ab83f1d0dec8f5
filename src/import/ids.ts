// The id of an imported job: the same each time that job is written.

import { createHash } from 'node:crypto'

/**
 * A UUIDv7 whose time is that of the taking, and the rest a hash of where the job comes from. Not the time of its creation: a job that was
 * made a month ago would be pruned as soon as it has run, and an import that repeats would no longer find that it was there.
 */
export function importedId(source: string, key: string, takenAtMs: number): string {
  const time = Math.floor(takenAtMs).toString(16).padStart(12, '0')
  const hash = createHash('sha256').update(`${source}\n${key}`).digest('hex')
  const variant = (0x8 | (Number.parseInt(hash[3]!, 16) & 0x3)).toString(16)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hash.slice(0, 3)}-${variant}${hash.slice(4, 7)}-${hash.slice(7, 19)}`
}
