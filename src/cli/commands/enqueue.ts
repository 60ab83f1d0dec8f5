// holdfast enqueue: one job from the shell.

import type { Command } from 'commander'
import type { EnqueueOptions, EnqueueResult } from '../../client/prepare.js'
import type { Duration } from '../../core/duration.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { EXIT } from '../exit-codes.js'
import { collect, duration, given, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, chooseStore, type StoreFlags, withStore } from '../input/connection.js'
import { readPayload } from '../input/payload.js'
import { writeJson } from '../output/json.js'
import { visibleJson } from '../output/terminal.js'

interface EnqueueFlags extends StoreFlags {
  readonly queue?: string
  readonly priority?: number
  readonly delay?: Duration
  readonly runAt?: string
  readonly key?: string
  readonly keyFor?: Duration
  readonly maxAttempts?: number
  readonly timeout?: Duration
  readonly maxAge?: Duration
  readonly after?: readonly string[]
  readonly onParentDead?: string
  readonly tag?: readonly string[]
  readonly wait?: Duration
}

export function addEnqueue(parent: Command, cli: Cli): void {
  const command = parent
    .command('enqueue')
    .summary('enqueue one job and print its id')
    .description('Enqueues one job and prints its id once the job is durable. With --wait, prints its result instead.')
    .argument('<type>', 'the type of the job: which handler runs it')
    .argument('[payload]', 'JSON, or - to read it from stdin (default: null)')
    .option('--queue <name>', 'the queue (default: default)')
    .option('--priority <number>', 'higher runs first, -32768 to 32767', wholeNumber)
    .option('--delay <duration>', 'not before this long from now: 250ms, 30s, 5m, 2h, 7d', duration)
    .option('--run-at <time>', 'not before this time: 2030-01-31T09:00:00Z')
    .option('--key <text>', 'idempotency key: no second job while the first is unfinished')
    .option('--key-for <duration>', 'hold the key this long instead, however the job ends', duration)
    .option('--max-attempts <number>', 'how often it is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run', duration)
    .option('--max-age <duration>', 'when it is older, it becomes dead instead of running', duration)
    .option('--after <id>', 'runs when that job has finished; may be repeated', collect)
    .option('--on-parent-dead <what>', 'cancel or run, when a job of --after dies (default: cancel)')
    .option('--tag <text>', 'a word to find it by; may be repeated', collect)
    .option('--wait <duration>', 'wait up to this long for its result', duration)
    .action((type: string, payload: string | undefined, flags: EnqueueFlags) => enqueue(cli, type, payload, flags))
  addStoreOptions(command, { json: 'print { id, created, state }, and with --wait { result }, as JSON' })
  addExamples(command, [
    [`holdfast enqueue send_email '{"to":"ada@example.com"}'`, 'run it as soon as a worker is free'],
    [`holdfast enqueue report '{"month":"2030-01"}' --delay 1h --key report:2030-01`, 'in an hour, once'],
    ['cat order.json | holdfast enqueue ship - --queue orders', 'the payload from a file'],
    ['holdfast enqueue resize 42 --wait 30s', 'wait for the result'],
  ])
}

async function enqueue(cli: Cli, type: string, text: string | undefined, flags: EnqueueFlags): Promise<void> {
  const payload = await readPayload(text)
  const options = readOptions(flags)
  await withStore(flags, { mustExist: false }, async (holdfast) => {
    const result = await holdfast.enqueue(type, payload, options)
    const note = (line: string) => {
      if (flags.json !== true) cli.stderr.line(cli.stderr.style('dim', line))
    }
    note(describe(type, result))
    if (flags.wait !== undefined) {
      const value = await holdfast.wait(result.id, { timeout: flags.wait })
      if (flags.json === true) writeJson(cli, { ...result, state: 'succeeded', result: value })
      else cli.stdout.line(visibleJson(value))
      return
    }
    if (flags.json === true) writeJson(cli, result)
    else cli.stdout.line(result.id)
    if (flags.json !== true && !(await hasWorker(holdfast, flags.queue ?? 'default'))) {
      note(`no worker serves this queue at ${chooseStore(flags).shown}: start one with \`holdfast worker ./jobs.js\``)
    }
  })
}

function readOptions(flags: EnqueueFlags): EnqueueOptions {
  if (flags.keyFor !== undefined && flags.key === undefined) {
    throw new CliError('--key-for is how long a key is held: give the key with --key', { exitCode: EXIT.usage })
  }
  return given({
    queue: flags.queue,
    priority: flags.priority,
    delay: flags.delay,
    runAt: flags.runAt,
    maxAttempts: flags.maxAttempts,
    timeout: flags.timeout,
    maxAge: flags.maxAge,
    after: flags.after,
    onParentDead: flags.onParentDead,
    tags: flags.tag,
    idempotencyKey: flags.keyFor === undefined ? flags.key : { key: flags.key, for: flags.keyFor },
  }) as EnqueueOptions
}

function describe(type: string, { created, state, id }: EnqueueResult): string {
  return created ? `enqueued ${type}: ${state}` : `nothing enqueued: job ${id} already holds this key; it is ${state}`
}

async function hasWorker(holdfast: Holdfast, queue: string): Promise<boolean> {
  // The job is enqueued already, so an error here must not become the command's failure.
  const workers = await holdfast.workers().catch(() => null)
  return workers === null || workers.some(({ queues }) => queues.includes(queue))
}
