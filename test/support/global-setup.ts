// One server for all tests that need no say over it. It skips fsync: what survives a crash is tested on servers of their own.

import { PostgresServer, programsOf15 } from '../../lab/servers/postgres.js'

export async function setup(): Promise<() => Promise<void>> {
  const settings = { fsync: 'off', full_page_writes: 'off' }
  const server = await PostgresServer.open({ settings })
  process.env.HOLDFAST_TEST_URL = server.url
  const programs = programsOf15()
  const server15 = programs === null ? null : await PostgresServer.open({ settings, programs })
  if (server15 !== null) process.env.HOLDFAST_TEST_URL_15 = server15.url
  return async () => {
    await server.close()
    await server15?.close()
  }
}
