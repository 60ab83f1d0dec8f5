// What the embedded server is set to: everything a queue wants that PostgreSQL's defaults do not give.

import { totalmem } from 'node:os'

const MB = 1024 * 1024

/**
 * The server's settings by name, passed on its command line at each start, so that a new version of this
 * package changes them without touching the data folder.
 */
export function serverSettings(memoryBytes: number = availableMemoryBytes()): Readonly<Record<string, string>> {
  return { ...durability(), ...memory(memoryBytes), ...writeAhead(), ...upkeep(), ...planning(), ...quiet() }
}

function availableMemoryBytes(): number {
  // A container's limit counts, not the machine it runs on. Without a limit Node answers 0 or an absurdly high number.
  const limit = process.constrainedMemory?.() ?? 0
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** These are PostgreSQL's defaults. They are spelled out because everything this queue promises depends on them. */
function durability(): Record<string, string> {
  return { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' }
}

function memory(memoryBytes: number): Record<string, string> {
  return {
    // The jobs that are alive, and their indexes, fit in 256 MB. A small machine keeps 7/8 for everyone else.
    shared_buffers: `${megabytes(memoryBytes / 8, 32, 256)}MB`,
    // Only a hint to the planner: how much of the tables the system's own cache is likely to hold.
    effective_cache_size: `${megabytes(memoryBytes / 2, 128, 64 * 1024)}MB`,
    // Vacuum and index builds; the autovacuum workers each take as much.
    maintenance_work_mem: `${megabytes(memoryBytes / 64, 16, 64)}MB`,
    // A dozen processes with a pool of ten each, and room for an operator.
    max_connections: '200',
    // Where huge pages exist but this container has none, trying for them ends in a bus error.
    huge_pages: 'off',
  }
}

function megabytes(bytes: number, min: number, max: number): number {
  return Math.round(Math.min(Math.max(bytes / MB, min), max))
}

function writeAhead(): Record<string, string> {
  return {
    // Nobody replicates from this server, and the minimum writes the least log.
    wal_level: 'minimal',
    max_wal_senders: '0',
    // This build has only pglz, which costs a busy queue more processor time than it saves in writing.
    wal_compression: 'off',
    // Default is 1/32 of shared_buffers; one whole segment lets a large enqueue be written in one go.
    wal_buffers: '16MB',
    // The first change to a page after a checkpoint logs the whole page, and a queue changes the same pages
    // again and again: rare checkpoints halve the log. The price is the replay after a crash, at most 2 GB.
    checkpoint_timeout: '15min',
    max_wal_size: '2GB',
    // Segments kept for reuse, so that a burst need not create files first.
    min_wal_size: '256MB',
  }
}

function upkeep(): Record<string, string> {
  return {
    // Each job leaves several dead row versions behind, and claims slow down as they pile up: look often…
    autovacuum_naptime: '5s',
    autovacuum_max_workers: '3',
    // …and once at it, finish. The default budget of 200 lets a busy table outgrow its vacuum.
    autovacuum_vacuum_cost_limit: '2000',
    autovacuum_vacuum_cost_delay: '2ms',
    // The background writer cleans pages ahead of need, so that a claim seldom has to write one out itself.
    bgwriter_delay: '100ms',
    bgwriter_lru_maxpages: '400',
  }
}

function planning(): Record<string, string> {
  return {
    // Data sits in memory or on a solid disk; at the default of 4 the planner shuns the indexes.
    random_page_cost: '1.1',
    // Statements take milliseconds; compiling one takes longer than running it.
    jit: 'off',
    // The same, and parallel plans need /dev/shm, of which containers get only 64 MB.
    max_parallel_workers_per_gather: '0',
    max_parallel_maintenance_workers: '0',
    // Nobody subscribes: one background process less.
    max_logical_replication_workers: '0',
    // Times read the same on every machine.
    timezone: 'UTC',
    log_timezone: 'UTC',
  }
}

/** The log has no rotation while the server runs, so only what an operator must see may go there. */
function quiet(): Record<string, string> {
  return {
    logging_collector: 'off',
    log_destination: 'stderr',
    // Errors of statements reach the client that sent them. Starts, stops, crashes and panics are logged.
    log_min_messages: 'log',
    // Statements carry payloads, and payloads do not belong in a log.
    log_min_error_statement: 'panic',
    log_statement: 'none',
    log_checkpoints: 'off',
    log_autovacuum_min_duration: '-1',
    log_lock_waits: 'off',
    // Shown in the process list, so that `ps` tells whose server this is.
    cluster_name: 'holdfast',
  }
}
