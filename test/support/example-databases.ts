// A database of its own for each example, on the server of the test run.

import pg from 'pg'
import { testServerUrl } from './postgres.js'

export interface ExampleDatabases {
  /** The URL of a new database. */
  make(example: string): Promise<string>
  drop(): Promise<void>
}

export async function exampleDatabases(): Promise<ExampleDatabases> {
  const admin = new pg.Client({ connectionString: testServerUrl() })
  await admin.connect()
  const databases: string[] = []
  return {
    async make(example) {
      const name = `example_${example.replaceAll('-', '_')}_${process.pid}`
      databases.push(name)
      await admin.query(`CREATE DATABASE ${name}`)
      const url = new URL(testServerUrl())
      url.pathname = `/${name}`
      return url.href
    },
    async drop() {
      for (const name of databases) await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
      await admin.end()
    },
  }
}
