// The audit log: who did what.

import type { AuditPage, AuditRecord, AuditRequest } from '../../core/operating.js'
import type { Memory } from './memory.js'

/** Writes a line. */
export function writeLine(memory: Memory, record: AuditRecord, nowMs: number): void {
  const { actor, action, job = null, target = null, details = null } = record
  const line = memory.audit.length + 1
  memory.audit.push({ line, at: new Date(nowMs), actor, action, job, target, details: copyJson(details) })
}

// What is kept is JSON, as in every store.
function copyJson(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value) ?? 'null')
}

export function audit(memory: Memory, { before, limit, action, actor, job }: AuditRequest): AuditPage {
  const found = memory.audit
    .filter(
      (entry) =>
        (before === null || entry.line < before) &&
        (action === undefined || entry.action === action) &&
        (actor === undefined || entry.actor === actor) &&
        (job === undefined || entry.job === job),
    )
    .reverse()
  const entries = found.slice(0, limit)
  return { entries, next: found.length > entries.length ? (entries.at(-1)?.line ?? null) : null }
}
