// holdfast enqueue: one job from the shell.

import { type Command, Option } from 'commander'
import type { EnqueueOptions } from '../../client/enqueue-options.js'
import type { EnqueueResult } from '../../client/job-handle.js'
import type { Duration } from '../../core/duration.js'
import { given } from '../../core/given.js'
import type { Holdfast } from '../../holdfast.js'
import { addExamples, type Cli } from '../command.js'
import { CliError } from '../errors.js'
import { collect, duration, wholeNumber } from '../input/arguments.js'
import { addStoreOptions, chooseStore, type StoreFlags, withStore } from '../input/connection.js'
import { readPayload } from '../input/payload.js'
import { writeJson } from '../output/json.js'
import { visibleJson } from '../output/terminal.js'

interface EnqueueFlags extends StoreFlags {
  readonly queue?: string
  readonly priority?: number
  readonly lifo?: boolean
  readonly startBy?: string
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
  readonly group?: string
  readonly limit?: readonly string[]
  readonly cost?: number
  readonly onFull?: string
  readonly debounce?: string
  readonly debounceWait?: Duration
  readonly debounceMaxWait?: Duration
  readonly replace?: string
  readonly throttle?: string
  readonly throttleFor?: Duration
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
    .option('--lifo', 'newest first: before the jobs of its priority that were enqueued earlier')
    .option('--delay <duration>', 'not before this long from now: 250ms, 30s, 5m, 2h, 7d', duration)
    .option('--run-at <time>', 'not before this time: 2030-01-31T09:00:00Z')
    .option('--start-by <time>', 'dead unless its first attempt begins by then: 2030-01-31T09:00:00Z')
    .option('--key <text>', 'idempotency key: no second job while the first is unfinished')
    .option('--key-for <duration>', 'hold the key this long instead, however the job ends', duration)
    .option('--max-attempts <number>', 'how often it is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run', duration)
    .option('--max-age <duration>', 'when it is older, it becomes dead instead of running', duration)
    .option('--after <id>', 'runs when that job has finished; may be repeated', collect)
    .option('--on-parent-dead <what>', 'cancel or run, when a job of --after dies (default: cancel)')
    .option('--tag <text>', 'a word to find it by; may be repeated', collect)
    .option('--group <name>', 'the tenant or entity it belongs to, within its queue')
    .option('--limit <name>', 'a limit it counts in; may be repeated, up to 4 times', collect)
    .option('--cost <number>', 'what its start takes of rates that count cost (default: 1)', wholeNumber)
    .addOption(
      new Option('--on-full <how>', 'when its queue or group is full (default: as the queue says)').choices([
        'reject',
        'wait',
      ]),
    )
    .option(
      '--debounce <key>',
      'one job of this key runs when no call came for --debounce-wait, with the newest payload',
    )
    .option('--debounce-wait <duration>', 'how long no call must have come', duration)
    .option('--debounce-max-wait <duration>', 'at the latest this long after the first call', duration)
    .option('--replace <key>', 'a job of this key that waits takes this payload')
    .option('--throttle <key>', 'of the jobs of this key within --throttle-for, only the first')
    .option('--throttle-for <duration>', 'how long', duration)
    .option('--wait <duration>', 'wait up to this long for its result', duration)
    .action((type: string, payload: string | undefined, flags: EnqueueFlags) => enqueue(cli, type, payload, flags))
  addStoreOptions(command, { json: 'print { id, created, state }, and with --wait { result }, as JSON' })
  addExamples(command, [
    [`holdfast enqueue send_email '{"to":"ada@example.com"}'`, 'run it as soon as a worker is free'],
    [`holdfast enqueue report '{"month":"2030-01"}' --delay 1h --key report:2030-01`, 'in an hour, once'],
    ['cat order.json | holdfast enqueue ship - --queue orders', 'the payload from a file'],
    ['holdfast enqueue resize 42 --wait 30s', 'wait for the result'],
    [`holdfast enqueue charge '{"cents":250}' --queue billing --group acme --limit stripe`, 'under flow control'],
    [`holdfast enqueue digest '{}' --throttle user:7 --throttle-for 1h`, 'at most once an hour'],
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
    throw new CliError('--key-for is how long a key is held: give the key with --key')
  }
  const { debounce, debounceWait: wait, debounceMaxWait: maxWait, replace, throttle, throttleFor } = flags
  demand('--debounce', debounce, '--debounce-wait', wait)
  if (maxWait !== undefined) demand('--debounce', debounce, '--debounce-max-wait', maxWait)
  demand('--throttle', throttle, '--throttle-for', throttleFor)
  return given({
    queue: flags.queue,
    priority: flags.priority,
    lifo: flags.lifo,
    startBy: flags.startBy,
    delay: flags.delay,
    runAt: flags.runAt,
    maxAttempts: flags.maxAttempts,
    timeout: flags.timeout,
    maxAge: flags.maxAge,
    after: flags.after,
    onParentDead: flags.onParentDead,
    tags: flags.tag,
    idempotencyKey: flags.keyFor === undefined ? flags.key : { key: flags.key, for: flags.keyFor },
    group: flags.group,
    limits: flags.limit,
    cost: flags.cost,
    onFull: flags.onFull,
    debounce: debounce === undefined ? undefined : { key: debounce, wait, ...given({ maxWait }) },
    replace: replace === undefined ? undefined : { key: replace },
    throttle: throttle === undefined ? undefined : { key: throttle, for: throttleFor },
  }) as EnqueueOptions
}

/** Raises when of two options that belong together only one is given. */
function demand(option: string, value: unknown, other: string, time: unknown): void {
  if ((value === undefined) === (time === undefined)) return
  throw new CliError(`${option} <key> and ${other} <duration> belong together: give both`)
}

function describe(type: string, { created, state, id, replaced }: EnqueueResult): string {
  if (replaced === true) return `job ${id} takes this payload; it is ${state}`
  return created ? `enqueued ${type}: ${state}` : `nothing enqueued: job ${id} already holds this key; it is ${state}`
}

async function hasWorker(holdfast: Holdfast, queue: string): Promise<boolean> {
  // The job is enqueued already, so an error here must not become the command's failure.
  const workers = await holdfast.workers().catch(() => null)
  return workers === null || workers.some(({ queues }) => queues.includes(queue))
}
