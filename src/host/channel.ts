// The way to one child: a process with a channel, or a thread. Both start the same program, child-main.ts.

import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker as Thread } from 'node:worker_threads'
import type { Isolate } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { Timers } from '../core/ports.js'
import { type ChildSetup, type FromChild, opened, type ToChild } from './protocol.js'

const MIB = 1024 * 1024
// What it sent before it ended is read first: a job whose end is in there does not run again.
const LAST_WORDS_MS = 500
// A child whose channel is closed can neither get a job nor report one, so it has this long to end by itself.
const CLOSED_MS_MAX = 1_000
// A group of processes for each child: what its handlers started is ended together with it.
const HAS_GROUPS = process.platform !== 'win32'
// Options of this process that would start a debugger on the same port, run another program, or undo the limit. Node refuses the type of a program from
// the command line where it runs a file.
const NOT_INHERITED =
  /^(--inspect|--debug|--max-old-space-size|--max_old_space_size|--watch|--test|--input-type|--eval|--print|-e$|-p$|-pe$)/
// The next word is the program, whatever it begins with.
const TAKES_PROGRAM = /^(--eval|--print|-e|-p|-pe)$/

/** How a child ended. */
export interface ChannelEnd {
  readonly code: number | null
  readonly signal: string | null
  readonly error: Error | null
}

export interface Channel {
  /** Null of a thread. */
  readonly pid: number | null
  send(message: ToChild): void
  /** Asks it to end now. */
  leave(): void
  /** Ends it by force, also while it computes. */
  kill(): void
}

export interface ChannelDeps {
  readonly setup: ChildSetup
  readonly memoryBytes: number | null
  readonly timers: Timers
  readonly onMessage: (message: FromChild) => void
  /** Called once, after the last message. */
  readonly onEnd: (end: ChannelEnd) => void
}

/** The file that a child runs. Raises `unsupported` where a bundler has left none. */
export function childProgram(): URL {
  // A bundle in CommonJS has no address of its own.
  const here = import.meta.url as string | undefined
  const file = here === undefined ? null : new URL(`./child-main${here.endsWith('.ts') ? '.ts' : '.js'}`, here)
  if (file !== null && existsSync(file)) return file
  throw new HoldfastError(
    'unsupported',
    'handlers cannot run in children of a bundled program, because the program of a child is a file of the package: leave holdfast out of the bundle (external), or leave out processes and isolate',
  )
}

export function openChannel(isolate: Isolate, deps: ChannelDeps): Channel {
  return isolate === 'process' ? openProcess(deps) : openThread(deps)
}

function openProcess({ setup, memoryBytes, timers, onMessage, onEnd }: ChannelDeps): Channel {
  const limit = memoryBytes === null ? [] : [`--max-old-space-size=${Math.floor(memoryBytes / MIB)}`]
  const child = fork(fileURLToPath(childProgram()), [JSON.stringify(setup)], {
    execArgv: [...inherited(process.execArgv), ...limit],
    serialization: 'advanced',
    detached: HAS_GROUPS,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let failure: Error | null = null
  let isOver = false
  let hasLeft = false
  const end = () => {
    if (isOver) return
    isOver = true
    onEnd({ code: child.exitCode, signal: child.signalCode, error: failure })
  }
  const hasExited = () => child.exitCode !== null || child.signalCode !== null
  child.on('message', (message) => {
    const own = isOver ? null : opened(message)
    if (own !== null) onMessage(own)
  })
  child.on('error', (error) => {
    failure = error
    // It never ran, so there is no exit to wait for.
    if (child.pid === undefined) end()
  })
  child.on('exit', () => {
    // Its jobs run again, so what their handlers started must not go on beside them.
    if (!hasLeft) killGroup(child)
    if (!child.connected) end()
    else timers.after(LAST_WORDS_MS, end, { keepAlive: true })
  })
  child.on('disconnect', () => {
    if (hasExited()) end()
    else timers.after(CLOSED_MS_MAX, () => void (hasExited() || killGroup(child)), { keepAlive: true })
  })
  return {
    pid: child.pid ?? null,
    send: (message) => {
      // A child that is gone answers with its exit, not here.
      if (child.connected) child.send(message, () => {})
    },
    leave: () => {
      hasLeft = true
      if (child.connected) child.disconnect()
    },
    kill: () => {
      hasLeft = false
      killGroup(child)
    },
  }
}

function killGroup(child: ChildProcess): void {
  if (child.pid === undefined) return
  child.kill('SIGKILL')
  if (!HAS_GROUPS) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // Nothing is left of it.
  }
}

function openThread({ setup, memoryBytes, onMessage, onEnd }: ChannelDeps): Channel {
  const thread = new Thread(childProgram(), {
    workerData: setup,
    name: 'holdfast-child',
    // A thread takes over all options, unless it is given its own, and then none that are about the process.
    ...(process.execArgv.some((option) => option.startsWith('--input-type')) ? { execArgv: [] } : {}),
    ...(memoryBytes === null ? {} : { resourceLimits: { maxOldGenerationSizeMb: Math.floor(memoryBytes / MIB) } }),
  })
  let failure: Error | null = null
  thread.on('message', (message: unknown) => {
    const own = opened(message)
    if (own !== null) onMessage(own)
  })
  thread.on('error', (error) => {
    failure = error as Error
  })
  thread.on('exit', (code) => onEnd({ code, signal: null, error: failure }))
  return {
    pid: null,
    send: (message) => thread.postMessage(message),
    leave: () => void thread.terminate(),
    kill: () => void thread.terminate(),
  }
}

/** The options that a child starts with, out of those of this process. */
export function inherited(options: readonly string[]): string[] {
  const kept: string[] = []
  let isLeftOut = false
  let isProgram = false
  for (const word of options) {
    const isOption: boolean = word.startsWith('-') && !isProgram
    // A word that is no option is the value of the one before it. Kept without that one, it would be the program to run.
    if (isOption) isLeftOut = NOT_INHERITED.test(word)
    if (!isLeftOut) kept.push(word)
    isProgram = isOption && TAKES_PROGRAM.test(word)
  }
  return kept
}
