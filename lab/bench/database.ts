// The databases that measurements run in.

import pg from 'pg'

/** The settings of the embedded server that matter here; durability stays on. */
export const POSTGRES_SETTINGS: Readonly<Record<string, string>> = {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  autovacuum_naptime: '5s',
}

/** An empty database in place of the last one; returns its URL. */
export async function freshDatabase(serverUrl: string): Promise<string> {
  await withClient(serverUrl, async (client) => {
    await client.query('DROP DATABASE IF EXISTS bench WITH (FORCE)')
    await client.query('CREATE DATABASE bench')
    await client.query('CHECKPOINT')
  })
  return serverUrl.replace(/\/postgres$/, '/bench')
}

/** Connects, works, and ends the connection. */
export async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'bench' })
  // A running query reports the error too; between two queries nothing else does.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
