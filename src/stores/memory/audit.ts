// The audit log: who did what.

import type { AuditEntry, AuditPage, AuditRecord, AuditRequest } from '../../core/operating.js'
import type { PruneAuditOptions } from '../../core/upkeep-store.js'
import type { Memory } from './memory.js'

/** Writes a line. */
export function writeLine(memory: Memory, record: AuditRecord, nowMs: number): void {
  const { actor, action, job = null, target = null, details = null } = record
  const line = ++memory.auditLine
  memory.audit.push({ line, at: new Date(nowMs), actor, action, job, target, details: copyJson(details) })
}

/** Lines that go in one call. */
const PRUNED_MAX = 5_000

export function pruneAudit(memory: Memory, { keptMs, linesMax }: PruneAuditOptions, nowMs: number): number {
  const isOld = ({ line, at }: AuditEntry) => at.getTime() < nowMs - keptMs || line <= memory.auditLine - linesMax
  const kept = memory.audit.findIndex((entry) => !isOld(entry))
  return memory.audit.splice(0, Math.min(PRUNED_MAX, kept === -1 ? memory.audit.length : kept)).length
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
