// A schema of its own on the server of the test run, filled with jobs in every state, for commands that look and change.

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect } from 'vitest'
import { defineJob } from '../../src/client/define-job.js'
import { connect } from '../../src/connect.js'
import { DropJob } from '../../src/core/definition.js'
import type { Holdfast } from '../../src/holdfast.js'
import { dropSchema, testServerUrl } from '../support/postgres.js'
import { type Ended, type RunOptions, run } from './support.js'

/** A store for the tests of one file. */
export interface TestStore {
  readonly holdfast: Holdfast
  readonly url: string
  readonly schema: string
  /** Where commands find it. */
  readonly at: RunOptions
  /** Runs a command on it. */
  holdfastCommand(line: readonly string[], options?: RunOptions): Promise<Ended>
  /** Runs a command with --json, which must end with `code`, and reads its answer. */
  json(line: readonly string[], code?: number): Promise<Record<string, unknown>>
  /** Dead jobs of a type of their own, each with this error. */
  kill(queue: string, messages: readonly string[]): Promise<readonly string[]>
}

/** Opens a store before the tests of a file and removes it after them. */
export function openTestStore(name: string): TestStore {
  const url = testServerUrl()
  const schema = `cli_${name}_${randomBytes(4).toString('hex')}`
  const at: RunOptions = { env: { HOLDFAST_URL: url, HOLDFAST_SCHEMA: schema } }
  let holdfast: Holdfast
  beforeAll(async () => {
    holdfast = await connect(url, { schema, upkeep: false })
  })
  afterAll(async () => {
    await holdfast.close()
    await dropSchema(url, schema)
  })
  const holdfastCommand = (line: readonly string[], options: RunOptions = {}) =>
    run(line, { ...at, ...options, env: { ...at.env, ...options.env } })
  return {
    get holdfast() {
      return holdfast
    },
    url,
    schema,
    at,
    holdfastCommand,
    json: async (line, code = 0) => {
      const ended = await holdfastCommand([...line, '--json'])
      expect(ended.code, ended.stderr).toBe(code)
      const answer = JSON.parse(ended.stdout)
      expect(answer.schemaVersion).toBe(1)
      return answer
    },
    kill: (queue, messages) => kill(holdfast, queue, messages),
  }
}

async function kill(holdfast: Holdfast, queue: string, messages: readonly string[]): Promise<readonly string[]> {
  const doomed = defineJob<{ message: string }>('doomed', { queue })
  const ids: string[] = []
  for (const message of messages) ids.push((await holdfast.enqueue(doomed, { message })).id)
  const worker = holdfast.worker({
    queues: [queue],
    handlers: [
      doomed.handle(({ message }) => {
        throw new DropJob(message)
      }),
    ],
  })
  await worker.start()
  for (const id of ids) await holdfast.wait(id, { timeout: '20s' }).catch(() => {})
  await worker.stop()
  return ids
}
