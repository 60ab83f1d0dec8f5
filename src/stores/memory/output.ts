// Output of running jobs.

import { OUTPUT_PAGE_LENGTH, type OutputWrite } from '../../core/kept/contract.js'
import type { OutputChunk, OutputPage } from '../../core/kept/kept.js'
import { isFinished } from '../../core/states.js'
import { heldJob, type Memory } from './memory.js'

export function write(memory: Memory, writes: readonly OutputWrite[], nowMs: number): boolean[] {
  return writes.map(({ offset, chunks, ...lease }) => {
    const job = heldJob(memory, lease)
    if (job === null) return false
    let at = offset
    for (const text of chunks) {
      const next = at + text.length
      const isKept = job.output.some((chunk) => chunk.offset === at)
      if (!isKept) job.output.push({ offset: at, next, text, attempt: job.attempt, at: new Date(nowMs) })
      at = next
    }
    return true
  })
}

export function read(memory: Memory, id: string, from: number): OutputPage | null {
  const job = memory.jobs.get(id)
  if (job === undefined) return null
  const chunks: OutputChunk[] = []
  let length = 0
  for (const chunk of job.output) {
    if (chunk.offset < from) continue
    if (length >= OUTPUT_PAGE_LENGTH) return { chunks, isOver: false }
    chunks.push(chunk)
    length += chunk.text.length
  }
  return { chunks, isOver: isFinished(job.state) }
}
