// holdfast top: the store at a glance, live in a terminal; elsewhere one frame.

import type { Command } from 'commander'
import type { Duration } from '../../core/duration.js'
import { isHoldfastError } from '../../core/errors.js'
import type { Holdfast } from '../../holdfast.js'
import { pollEvery } from '../arguments.js'
import { addExamples, type Cli, writeJson } from '../command.js'
import { addStoreOptions, chooseStore, type StoreFlags, withStore } from '../connection.js'
import { Lifetime } from '../lifetime.js'
import { pollUntil } from '../poll.js'
import { cutTo, visible } from '../terminal.js'
import { frameLines, type Sight } from '../top/frame.js'
import { Screen } from '../top/screen.js'

interface TopFlags extends StoreFlags {
  readonly every: Duration
  readonly once?: boolean
}

const DRAW_MS_MIN = 250

export function addTop(parent: Command, cli: Cli): void {
  const command = parent
    .command('top')
    .summary('watch the store live')
    .description(
      'Shows queues, rates, workers and what kills jobs, again and again until q or Ctrl-C. Where stdout is no terminal, ' +
        'or with --json, it prints one frame.',
    )
    .option('--every <duration>', 'how often to look, 250ms to 1h', pollEvery, 1_000)
    .option('--once', 'one frame also in a terminal')
    .action((flags: TopFlags) => top(cli, flags))
  addStoreOptions(command, { json: 'print { overview, workers, groups, series } once, as JSON' })
  addExamples(command, [
    ['holdfast top', 'live; q quits'],
    ['holdfast top --every 5s --url postgres://app@db/shop', 'another store, more calmly'],
    ['holdfast top | head -3', 'one frame, the sums only'],
  ])
}

async function top(cli: Cli, flags: TopFlags): Promise<void> {
  const store = chooseStore(flags).shown
  await withStore(flags, { mustExist: true }, async (holdfast) => {
    if (flags.json === true) writeJson(cli, await look(holdfast))
    else if (!cli.stdout.isTerminal || flags.once === true) {
      for (const line of frameLines(cli.stdout, await look(holdfast), { store, rows: null })) cli.stdout.line(line)
    } else await watch(cli, holdfast, store, flags)
  })
}

async function look(holdfast: Holdfast): Promise<Sight> {
  return {
    overview: await holdfast.overview(),
    workers: await holdfast.workers(),
    groups: await holdfast.deadGroups({ limit: 5 }),
    series: await holdfast.series({ since: '15m', step: '10s' }),
  }
}

async function watch(cli: Cli, holdfast: Holdfast, store: string, flags: TopFlags): Promise<void> {
  const { stdout } = cli
  const lifetime = new Lifetime(cli, {
    signals: ['SIGINT', 'SIGTERM', 'SIGHUP'],
    onUncaught: () => false,
    leaving: 'left at once',
  })
  const screen = new Screen(stdout, (key) => {
    if (key === 'q' || key === 'Q' || key === '\u0003') lifetime.end()
  })
  let sight: Sight | null = null
  let away: string | null = null
  const draw = () => {
    const rows = stdout.rows === null ? null : stdout.rows - 1
    const lines = sight === null ? [] : frameLines(stdout, sight, { store, rows })
    const foot = away === null ? stdout.style('dim', 'q quits') : stdout.style('red', cutTo(visible(away), 200))
    screen.draw([...lines, foot])
  }
  const redraw = atMostEvery(DRAW_MS_MIN, draw)
  const endResize = stdout.onResize(redraw.run)
  try {
    const lookAndDraw = async () => {
      try {
        sight = await look(holdfast)
        away = null
      } catch (error) {
        // What is away is shown in the frame, and looked for again.
        if (!isHoldfastError(error) || !error.retryable) throw error
        away = `the store is away: ${error.message}`
      }
      redraw.run()
    }
    await pollUntil(lifetime.signal, { cli, everyMs: Number(flags.every), look: lookAndDraw })
  } finally {
    endResize()
    redraw.stop()
    screen.close()
  }
}

/** Runs something soon, but never twice within `ms`. */
function atMostEvery(ms: number, run: () => void): { readonly run: () => void; readonly stop: () => void } {
  let lastMs = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | null = null
  const now = () => {
    timer = null
    lastMs = performance.now()
    run()
  }
  return {
    run: () => {
      const waitMs = lastMs + ms - performance.now()
      if (waitMs <= 0) now()
      else timer ??= setTimeout(now, waitMs)
    },
    stop: () => {
      if (timer !== null) clearTimeout(timer)
    },
  }
}
