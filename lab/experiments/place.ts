// Where an experiment runs: a PostgreSQL server, its own or one that is given, and databases on it that are gone afterwards.

import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { POSTGRES_SETTINGS, withClient } from '../bench/database.js'
import { PostgresServer } from '../servers/postgres.js'

export interface Place {
  readonly url: string
  readonly version: string
  /** The process of the server where it can be seen from here, for its processor time. */
  readonly serverPid: () => Promise<number | null>
  /** Restarts the server, so that its cache is empty; null for a server that is not ours. */
  readonly restart: (() => Promise<void>) | null
  /** What the server was started with; null for one that was given. */
  readonly settings: Readonly<Record<string, string>> | null
  close(): Promise<void>
}

/** A new server, or with a URL the given one. */
export async function openPlace(url: string | null, isUnused = false): Promise<Place> {
  // The experiment starts its own, of versions that its rows name.
  if (isUnused)
    return {
      url: '',
      version: 'of its own',
      serverPid: async () => null,
      restart: null,
      settings: null,
      close: async () => {},
    }
  if (url !== null) {
    const given = { serverPid: () => pidOf(url), restart: null, settings: null, close: async () => {} }
    return { url, version: await versionOf(url), ...given }
  }
  const server = await PostgresServer.open({ settings: POSTGRES_SETTINGS })
  return {
    url: server.url,
    version: await versionOf(server.url),
    serverPid: async () => (server.isRunning ? server.pid : null),
    async restart() {
      await server.stop('SIGINT')
      await server.start()
    },
    settings: POSTGRES_SETTINGS,
    close: () => server.close(),
  }
}

function versionOf(url: string): Promise<string> {
  return withClient(url, async (client) => {
    const { rows } = await client.query("SELECT current_setting('server_version') AS version")
    return rows[0].version as string
  })
}

/** The parent of our connection's backend process; null when it runs on another machine. */
function pidOf(url: string): Promise<number | null> {
  return withClient(url, async (client) => {
    const { rows } = await client.query('SELECT pg_backend_pid() AS pid')
    try {
      const text = readFileSync(`/proc/${rows[0].pid}/stat`, 'utf8')
      if (!text.includes('(postgres)')) return null
      return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1])
    } catch {
      return null
    }
  })
}

/** A database of one run. */
export interface Ground {
  readonly url: string
  readonly client: pg.Client
}

let count = 0

/** A fresh database with Holdfast's tables, filled by `seed`; dropped after `work`. */
export async function withGround<T>(
  place: Place,
  seed: (client: pg.Client) => Promise<void>,
  work: (ground: Ground) => Promise<T>,
  options: { readonly isCold?: boolean } = {},
): Promise<T> {
  const name = `experiment_${process.pid}_${++count}`
  await withClient(place.url, (client) => client.query(`CREATE DATABASE ${name}`))
  const url = databaseUrl(place.url, name)
  try {
    await (await postgresStore(url)).close()
    await withClient(url, async (client) => {
      // Only the rows matter here; the checkpoint writes them to disk.
      await client.query('SET synchronous_commit = off')
      await seed(client)
      await client.query('VACUUM (ANALYZE) holdfast.jobs, holdfast.ready, holdfast.scheduled')
      if (options.isCold) await client.query('CHECKPOINT')
    })
    if (options.isCold) await place.restart?.()
    return await withClient(url, (client) => work({ url, client }))
  } finally {
    await withClient(place.url, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
  }
}

function databaseUrl(url: string, name: string): string {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}
