// The way to one child: a process with a channel, or a thread. Both start the same program, child-main.ts.

import { fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Worker as Thread } from 'node:worker_threads'
import type { Isolate } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import type { Timers } from '../core/ports.js'
import type { ChildSetup, FromChild, ToChild } from './protocol.js'

const MIB = 1024 * 1024
// What it sent before it ended is read first: a job whose end is in there does not run again.
const LAST_WORDS_MS = 500
// Options of this process that would start a debugger on the same port, run another program, or undo the limit.
const NOT_INHERITED = /^(--inspect|--debug|--max-old-space-size|--max_old_space_size|--watch|--test)/
const NOT_INHERITED_WITH_VALUE: readonly string[] = ['-e', '--eval', '-p', '--print', '-pe']

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
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  let failure: Error | null = null
  let isOver = false
  const end = () => {
    if (isOver) return
    isOver = true
    onEnd({ code: child.exitCode, signal: child.signalCode, error: failure })
  }
  child.on('message', (message) => {
    if (!isOver) onMessage(message as FromChild)
  })
  child.on('error', (error) => {
    failure = error
    // It never ran, so there is no exit to wait for.
    if (child.pid === undefined) end()
  })
  child.on('exit', () => {
    if (!child.connected) end()
    else timers.after(LAST_WORDS_MS, end, { keepAlive: true })
  })
  child.on('disconnect', () => {
    if (child.exitCode !== null || child.signalCode !== null) end()
  })
  return {
    pid: child.pid ?? null,
    send: (message) => {
      // A child that is gone answers with its exit, not here.
      if (child.connected) child.send(message, () => {})
    },
    leave: () => {
      if (child.connected) child.disconnect()
    },
    kill: () => child.kill('SIGKILL'),
  }
}

function openThread({ setup, memoryBytes, onMessage, onEnd }: ChannelDeps): Channel {
  const thread = new Thread(childProgram(), {
    workerData: setup,
    name: 'holdfast-child',
    ...(memoryBytes === null ? {} : { resourceLimits: { maxOldGenerationSizeMb: Math.floor(memoryBytes / MIB) } }),
  })
  let failure: Error | null = null
  thread.on('message', (message: FromChild) => onMessage(message))
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

function inherited(options: readonly string[]): string[] {
  return options.filter(
    (option, index) =>
      !NOT_INHERITED.test(option) &&
      !NOT_INHERITED_WITH_VALUE.includes(option) &&
      !NOT_INHERITED_WITH_VALUE.includes(options[index - 1] ?? ''),
  )
}
