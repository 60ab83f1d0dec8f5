// The checks of `doctor`, made from its facts: what durability the store really has, what is wrong, how to fix it. Pure.

import { isLessThanOn } from '../../core/durability.js'
import type { Horizon, Overview, PostgresHealth } from '../../core/operating.js'
import { lacksWorker } from '../output/columns.js'
import { spanText } from '../output/times.js'
import { checkReplication } from './failover-checks.js'
import { flowChecks } from './flow-checks.js'
import { type Found, failed, ok, warning } from './found.js'
import type { Facts } from './inspect.js'
import { checkOutbox, redisChecks, redisDurability } from './redis-checks.js'

export type { Level } from './found.js'

export interface Check extends Found {
  readonly name: string
}

const RELOAD = 'SELECT pg_reload_conf();'

/** From when on a check warns. */
export interface Thresholds {
  /** For how long dead rows could not be removed. */
  readonly horizonWarnMs: number
}

const THRESHOLDS: Thresholds = { horizonWarnMs: 60_000 }

/** Every check, in reading order. */
export function checksOf(facts: Facts, { horizonWarnMs }: Thresholds = THRESHOLDS): readonly Check[] {
  const { migrations, health, clockOffsetMs, overview, late, strays, repaired, flow } = facts
  const schema = migrations === null ? [] : [named('schema', checkSchema(migrations))]
  if (health === null) return schema
  const { postgres } = health
  if (health.redis !== undefined) {
    return [
      ...redisChecks(health.redis).map(([name, found]) => named(name, found)),
      ...(health.outbox === undefined ? [] : [named('outbox', checkOutbox(health.outbox))]),
      named('clock', checkClock(clockOffsetMs)),
    ]
  }
  if (postgres === null) return [...schema, named('durability', checkMemory())]
  const { settings } = postgres
  return [
    named('fsync', checkFsync(settings.fsync)),
    named('full_page_writes', checkPages(settings.fullPageWrites)),
    named('synchronous_commit', checkCommit(settings)),
    ...(postgres.standbys === undefined ? [] : [named('replication', checkReplication(postgres.standbys))]),
    named('writable', checkWritable(postgres)),
    ...schema,
    named('version', checkVersion(postgres.versionNumber, health.version)),
    named('autovacuum', checkAutovacuum(settings.autovacuum)),
    named('horizon', checkHorizon(postgres.horizon, horizonWarnMs)),
    named('dead rows', checkDeadRows(postgres)),
    named('retention', checkRetention(postgres)),
    named('pooler', checkPooler(postgres.hasPooler)),
    named('connections', checkConnections(postgres)),
    named('statement_timeout', checkStatementTimeout(settings.statementTimeout)),
    named('clock', checkClock(clockOffsetMs)),
    ...(late === undefined ? [] : [named('schedules', checkSchedules(facts))]),
    ...(strays === undefined ? [] : [named('strays', checkStrays(strays, health.nowMs))]),
    ...(repaired === undefined ? [] : [named('flow', checkRepaired(repaired))]),
    ...(overview === null ? [] : [named('workers', checkWorkers(overview))]),
    ...(flow === undefined ? [] : flowChecks(flow, overview, health.nowMs)),
  ]
}

function named(name: string, found: Found): Check {
  return { name, ...found }
}

/** One sentence: what a crash does to an accepted job. */
export function durabilityOf({ health }: Facts): string {
  if (health === null) return 'Not known yet: the schema does not exist.'
  const { postgres, redis } = health
  if (redis !== undefined) return redisDurability(redis)
  if (postgres === null) return 'None: every job is lost when the process ends. This store is for tests.'
  const { fsync, fullPageWrites, synchronousCommit } = postgres.settings
  if (!fsync) {
    return 'An accepted job survives a crash of a worker or of the server program, but not of the machine: a power cut may lose jobs and damage the whole database.'
  }
  if (synchronousCommit === 'off') {
    return 'An accepted job survives a crash of a worker; a crash of the server loses jobs it accepted in about the last second.'
  }
  const torn = fullPageWrites ? '' : ' A power cut may still damage pages that were being written.'
  return `${KEPT[synchronousCommit] ?? KEPT.on}${torn}`
}

const ON_DISK = "An accepted job is on the server's disk and survives a crash of workers, server and machine"

const KEPT: Readonly<Record<string, string>> = {
  local: `${ON_DISK}. Standbys may lag behind: a failover may lose the newest jobs.`,
  remote_write: `${ON_DISK}, and was handed to the synchronous standbys, if there are any.`,
  on: `${ON_DISK}, and is on the disks of the synchronous standbys, if there are any.`,
  remote_apply: `${ON_DISK}, and can be read on the synchronous standbys, if there are any.`,
}

function checkMemory(): Found {
  return failed('the memory store keeps nothing', 'holdfast doctor --url postgres://user@host/database')
}

function checkFsync(isOn: boolean): Found {
  if (isOn) return ok('on: what is written is on disk')
  return failed(
    'off: a crash of the machine may lose accepted jobs and damage the database',
    'ALTER SYSTEM SET fsync = on;',
    RELOAD,
  )
}

function checkPages(isOn: boolean): Found {
  if (isOn) return ok('on: a page that a power cut left half written is repaired')
  return failed(
    'off: a power cut may leave a page half written, and nothing can repair it',
    'ALTER SYSTEM SET full_page_writes = on;',
    RELOAD,
  )
}

const ROLE_ON = 'ALTER ROLE CURRENT_USER SET synchronous_commit = on;'

function checkCommit({ synchronousCommit, synchronousCommitOfRole }: PostgresHealth['settings']): Found {
  if (isLessThanOn(synchronousCommit)) {
    return failed(
      `${synchronousCommit}, and Holdfast could not turn it on: enqueue returns before the job is durable`,
      ROLE_ON,
    )
  }
  if (!isLessThanOn(synchronousCommitOfRole)) return ok(`${synchronousCommit}: enqueue returns when the job is on disk`)
  return warning(
    `${synchronousCommitOfRole} on the server; Holdfast turns it on for its own transactions, but not for yours that enqueue`,
    ROLE_ON,
  )
}

function checkWritable({ inRecovery, settings }: PostgresHealth): Found {
  if (inRecovery) {
    return failed('this is a standby, which accepts no writes', 'holdfast doctor --url postgres://…  # the primary')
  }
  if (settings.readOnlyByDefault) {
    return failed(
      'default_transaction_read_only is on: nothing can be enqueued or claimed',
      'ALTER ROLE CURRENT_USER SET default_transaction_read_only = off;',
    )
  }
  return ok('it accepts writes')
}

function checkSchema({ schema, applied, missing }: NonNullable<Facts['migrations']>): Found {
  if (missing.length === 0)
    return ok(`"${schema}" is at migration ${applied.at(-1)!.number}, the one this version needs`)
  const at = applied.length === 0 ? 'does not exist or is empty' : `is at migration ${applied.at(-1)!.number}`
  return failed(`"${schema}" ${at} and lacks ${missing.length}`, `holdfast migrate up --schema ${schema}`)
}

const VERSION_MIN = 150_000

function checkVersion(number: number, version: string): Found {
  if (number >= VERSION_MIN) return ok(version)
  return failed(`${version} is too old: Holdfast needs 15 or later`, '# upgrade the server to PostgreSQL 15 or later')
}

function checkAutovacuum(isOn: boolean): Found {
  if (isOn) return ok('on')
  return failed(
    'off: dead rows pile up, and every claim becomes slower and slower',
    'ALTER SYSTEM SET autovacuum = on;',
    RELOAD,
  )
}

const HORIZON_FAIL_MS = 60 * 60_000

function checkHorizon(horizon: Horizon | undefined, warnMs: number): Found {
  if (horizon === undefined || horizon.holder === null || horizon.ageMs < warnMs) {
    return ok('dead rows can be removed')
  }
  const { holder, ageMs, xids } = horizon
  const who = [
    holder.pid === null ? null : `pid ${holder.pid}`,
    holder.user === null ? null : `user ${holder.user}`,
    holder.application === null || holder.application === '' ? null : holder.application,
    holder.state,
  ].filter((part) => part !== null)
  const text = `${HOLDERS[holder.kind]}${who.length === 0 ? '' : ` (${who.join(', ')})`} has kept dead rows from being removed for ${spanText(ageMs)}, ${xids.toLocaleString('en')} transactions; every claim becomes slower`
  const level = ageMs >= HORIZON_FAIL_MS ? 'failed' : 'warning'
  return { level, text, fix: fixHorizon(holder) }
}

type Holder = NonNullable<Horizon['holder']>

const HOLDERS: Readonly<Record<Holder['kind'], string>> = {
  transaction: 'an open transaction',
  prepared: 'a prepared transaction',
  slot: 'a replication slot',
  standby: 'a query on a standby',
}

function fixHorizon({ kind, pid }: Holder): readonly string[] {
  switch (kind) {
    case 'transaction':
      return pid === null ? [] : [`SELECT pg_terminate_backend(${pid});`]
    case 'prepared':
      return [
        'SELECT gid, prepared, owner FROM pg_prepared_xacts ORDER BY prepared;',
        "ROLLBACK PREPARED '<gid>';  -- the oldest that will not be finished",
      ]
    case 'slot':
      return [
        'SELECT slot_name, active, age(coalesce(xmin, catalog_xmin)) FROM pg_replication_slots ORDER BY 3 DESC NULLS LAST;',
        "SELECT pg_drop_replication_slot('<slot_name>');  -- one that is no longer used",
      ]
    case 'standby':
      return ['-- on the standby: end its long query, or', 'ALTER SYSTEM SET hot_standby_feedback = off;', RELOAD]
  }
}

// A table of a busy queue has some dead rows. This many mean that vacuum does not keep up.
const DEAD_ROWS_MAX = 200_000

function checkDeadRows({ tables, schema }: PostgresHealth): Found {
  const bad = tables.filter(({ liveRows, deadRows }) => deadRows > DEAD_ROWS_MAX && deadRows > liveRows)
  if (bad.length === 0) return ok('vacuum keeps up')
  const list = bad.map(({ name, deadRows }) => `${name} ${deadRows.toLocaleString('en')}`)
  return warning(
    `vacuum does not keep up: ${list.join(', ')}`,
    ...bad.map(({ name }) => `VACUUM (ANALYZE) "${schema}"."${name}";`),
  )
}

function checkRetention({ postponedDays }: PostgresHealth): Found {
  if (postponedDays.length === 0) return ok('no day is kept beyond its retention')
  const list = postponedDays.slice(0, 3).map(({ day, why }) => `${day}: ${why}`)
  const more = postponedDays.length > 3 ? `; and ${postponedDays.length - 3} more` : ''
  return warning(
    `retention skips ${list.join('; ')}${more}`,
    "holdfast jobs list --filter 'state:dead'  # requeue or discard them",
  )
}

function checkPooler(hasPooler: boolean): Found {
  if (!hasPooler) return ok('none found: statements reach one server process')
  return warning(
    'connections go through a pooler in transaction mode: wake-ups are lost and workers poll instead, which delays jobs by up to 2 s',
    '# give workers the URL of the server itself, or of a pool in session mode',
  )
}

function checkConnections({ connections, settings }: PostgresHealth): Found {
  const { maxConnections } = settings
  const text = `${connections} of ${maxConnections} in use`
  const share = connections / maxConnections
  if (share < 0.8) return ok(text)
  const fix = [
    'SELECT application_name, count(*) FROM pg_stat_activity GROUP BY 1 ORDER BY 2 DESC;',
    `ALTER SYSTEM SET max_connections = ${maxConnections * 2};  -- needs a restart`,
  ]
  return share < 0.95 ? warning(text, ...fix) : failed(`${text}: the next process may not be able to connect`, ...fix)
}

function checkStatementTimeout(timeout: string): Found {
  if (timeout === 'none' || timeout === '0') return ok('the role sets none')
  return warning(
    `the role sets ${timeout}, which Holdfast overrides on its own connections; behind a pooler it applies, and may interrupt upkeep`,
    'ALTER ROLE CURRENT_USER RESET statement_timeout;',
  )
}

const CLOCK_WARN_MS = 2_000

function checkClock(offsetMs: number): Found {
  const text = `the store's clock is ${spanText(Math.abs(offsetMs))} ${offsetMs < 0 ? 'behind' : 'ahead of'} this machine's`
  if (Math.abs(offsetMs) < CLOCK_WARN_MS) return ok(text)
  return warning(
    `${text}. Leases and schedules use the store's clock only; times computed on this machine are wrong by that much`,
    'timedatectl set-ntp true  # on the machine whose clock is wrong',
  )
}

function checkSchedules({ late, ahead }: Facts): Found {
  if (ahead !== null && ahead !== undefined) {
    const others = ahead.count === 1 ? '' : `, and ${ahead.count - 1} more`
    return warning(
      `"${ahead.name}"${others} fired last when the server's clock was ahead, and waits until that time is reached again`,
      `holdfast schedules pause ${ahead.name} && holdfast schedules resume ${ahead.name}  # computes its next time again`,
    )
  }
  if (late === null || late === undefined) return ok('no tick is late')
  const { name, queue, lateMs, count } = late
  const others = count === 1 ? '' : `, and ${count - 1} more are late`
  return warning(
    `"${name}" of ${queue} should have fired ${spanText(lateMs)} ago${others}: no process does upkeep, or there are more ticks than it can fire`,
    'holdfast schedules list',
    'holdfast worker ./jobs.js',
  )
}

// Holdfast never writes such rows. A week: long enough for someone who runs doctor once a week, and an old mistake is not
// reported for ever.
const STRAYS_MS = 7 * 86_400_000

function checkStrays(strays: NonNullable<Facts['strays']>, nowMs: number): Found {
  const recent = strays.filter(({ at }) => nowMs - at.getTime() < STRAYS_MS)
  const [newest] = recent
  if (newest === undefined) return ok('no row was removed that should not have been there')
  const count =
    recent.length === 1
      ? 'a row that should not have been there was'
      : `${recent.length} rows or more that should not have been there were`
  return warning(
    `${count} removed from the queue, the last ${spanText(nowMs - newest.at.getTime())} ago: something other than Holdfast writes to its tables`,
    'holdfast audit --action remove_stray',
  )
}

// It is for settlements by processes of an older version. As with strays, a week.
function checkRepaired(repaired: NonNullable<Facts['repaired']> | null): Found {
  if (repaired === null || repaired.agoMs > STRAYS_MS) return ok('no group with a free slot was forgotten')
  const { queue, count, agoMs } = repaired
  return warning(
    `${count} groups of ${queue} had jobs that might go and that no claim would have looked at, the last ${spanText(agoMs)} ago; they went on. Processes of an older version settle jobs, or this is a bug`,
    'holdfast workers list',
  )
}

function checkWorkers({ queues }: Overview): Found {
  const unserved = queues.filter(lacksWorker).map(({ name }) => name)
  if (unserved.length === 0) return ok('every queue with ready jobs has a live worker or is paused')
  return warning(
    `no live worker serves ${unserved.slice(0, 5).join(', ')}${unserved.length > 5 ? ', …' : ''}, which ${unserved.length === 1 ? 'has' : 'have'} ready jobs`,
    `holdfast worker ./jobs.js --queues ${unserved.slice(0, 5).join(',')}`,
  )
}
