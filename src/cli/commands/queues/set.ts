// holdfast queues set: what a queue sets for its jobs that set nothing themselves.

import { type Command, Option } from 'commander'
import type { QueueOptions } from '../../../client/job-actions.js'
import type { Duration } from '../../../core/duration.js'
import type { QueueSettings } from '../../../core/job.js'
import type { Backoff } from '../../../core/retry.js'
import { type ActorFlags, addByOption, byOption } from '../../actor.js'
import { duration, durationOrUnlimited, gather, wholeNumber } from '../../arguments.js'
import { addExamples, type Cli, writeJson } from '../../command.js'
import { addStoreOptions, type StoreFlags, withStore } from '../../connection.js'
import { CliError } from '../../errors.js'
import { EXIT } from '../../exit-codes.js'
import { addCreateOption, type CreateFlags, demandQueues } from '../../find-queue.js'

interface SetFlags extends StoreFlags, ActorFlags, CreateFlags {
  readonly maxAttempts?: number
  readonly timeout?: Duration | null
  readonly maxAge?: Duration | null
  readonly backoff?: Backoff
  readonly backoffBase?: Duration
  readonly backoffCap?: Duration
  readonly jitter?: boolean
  readonly retention?: Duration
  readonly unset?: readonly Setting[]
}

const SETTINGS = ['maxAttempts', 'timeout', 'maxAge', 'retry', 'retention'] as const
type Setting = (typeof SETTINGS)[number]

/** max-attempts, as it is typed. */
const typed = (name: string) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

export function addQueuesSet(parent: Command, cli: Cli): void {
  const command = parent
    .command('set')
    .summary('set what holds for the jobs of a queue')
    .description(
      'Sets what holds for the jobs of a queue that set nothing themselves. What is not named stays as it is.',
    )
    .argument('<queue>', 'its name')
    .option('--max-attempts <number>', 'how often a job is tried', wholeNumber)
    .option('--timeout <duration>', 'how long one attempt may run, or `unlimited`', durationOrUnlimited)
    .option('--max-age <duration>', 'dead instead of run when a job is older, or `unlimited`', durationOrUnlimited)
    .addOption(new Option('--backoff <how>', 'how waits grow').choices(['exponential', 'linear', 'fixed']))
    .option('--backoff-base <duration>', 'the wait after the first failure', duration)
    .option('--backoff-cap <duration>', 'no wait is longer', duration)
    .option('--no-jitter', 'waits of exactly that length')
    .option('--retention <duration>', 'how long finished jobs are kept at least', duration)
    .option('--unset <setting>', `forget one of ${SETTINGS.map(typed).join(', ')}; may be repeated`, gather)
    .action((queue: string, flags: SetFlags) => set(cli, queue, flags))
  // Without a default: whether it was given decides.
  command.setOptionValueWithSource('jitter', undefined, 'default')
  addByOption(command)
  addCreateOption(command)
  addStoreOptions(command, { json: 'print { queue } as JSON' })
  addExamples(command, [
    ['holdfast queues set mail --max-attempts 5 --timeout 30s', 'for every job that says nothing else'],
    ['holdfast queues set mail --backoff fixed --backoff-base 10s', 'try again every ten seconds'],
    ['holdfast queues set mail --unset timeout', 'back to the default'],
  ])
}

async function set(cli: Cli, name: string, flags: SetFlags): Promise<void> {
  const unset = (flags.unset ?? []).map(readSetting)
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    await demandQueues(holdfast, [name], flags)
    const known = (await holdfast.queues()).find((queue) => queue.name === name)
    const options = merge(known?.settings ?? { limits: {} }, flags, unset)
    await holdfast.setQueue(name, options, byOption(flags))
    const queue = (await holdfast.queues()).find((candidate) => candidate.name === name)
    if (flags.json === true) writeJson(cli, { queue })
    else cli.stderr.line(`queue ${name} is set: ${JSON.stringify(options)}`)
  })
}

function readSetting(text: string): Setting {
  const setting = SETTINGS.find((candidate) => typed(candidate) === text)
  if (setting !== undefined) return setting
  throw new CliError(`--unset takes one of ${SETTINGS.map(typed).join(', ')}, got ${JSON.stringify(text)}`, {
    exitCode: EXIT.usage,
  })
}

/** What the queue has, with what was given in its place. */
function merge({ limits, retentionMs }: QueueSettings, flags: SetFlags, unset: readonly Setting[]): QueueOptions {
  const { backoff, backoffBase, backoffCap, jitter } = flags
  const old = limits.retry
  const isRetryGiven = [backoff, backoffBase, backoffCap, jitter].some((value) => value !== undefined)
  const retry = {
    ...(old === undefined ? {} : { backoff: old.backoff, base: old.baseMs, cap: old.capMs, jitter: old.jitter }),
    ...(backoff === undefined ? {} : { backoff }),
    ...(backoffBase === undefined ? {} : { base: backoffBase }),
    ...(backoffCap === undefined ? {} : { cap: backoffCap }),
    ...(jitter === undefined ? {} : { jitter }),
  }
  const all: Record<Setting, unknown> = {
    maxAttempts: flags.maxAttempts ?? limits.maxAttempts,
    timeout: flags.timeout === undefined ? limits.timeoutMs : flags.timeout,
    maxAge: flags.maxAge === undefined ? limits.maxAgeMs : flags.maxAge,
    retry: isRetryGiven || old !== undefined ? retry : undefined,
    retention: flags.retention ?? retentionMs,
  }
  const kept = SETTINGS.filter((setting) => all[setting] !== undefined && !unset.includes(setting))
  return Object.fromEntries(kept.map((setting) => [setting, all[setting]])) as QueueOptions
}
