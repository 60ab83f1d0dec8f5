// The program of a child: loads the module, runs the jobs its host sends, and ends with its host. It is the first module of a process or a thread of
// its own, so it puts its parts together itself.

import { isMainThread, parentPort, Worker as Thread, workerData } from 'node:worker_threads'
import type { Handler } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import { attributeUncaught } from '../worker/current-job.js'
import { resolveHandlers } from '../worker/options.js'
import { ChildRun } from './child-run.js'
import { handlersOf, loadModule } from './load-module.js'
import { markChild } from './options.js'
import { type ChildSetup, type FromChild, sendError, type ToChild } from './protocol.js'

const ALIVE_MS = 1_000
const WATCH_MS = 200

const setup = (isMainThread ? JSON.parse(process.argv[2]!) : workerData) as ChildSetup

function send(message: FromChild, onSent: () => void = () => {}): void {
  if (parentPort !== null) {
    parentPort.postMessage(message)
    onSent()
  } else if (process.connected) process.send!(message, onSent)
}

/** Reports an error that ends the child, and ends it. */
function fail(error: unknown): void {
  send({ kind: 'failed', error: sendError(error) }, () => process.exit(1))
}

// A thread of this process that needs nothing of the first one: a handler that computes without end stops neither a timer nor a look there. The child
// ends when its parent is gone, when the parent stands still for so long that its leases may run out, and when it holds too much memory.
const WATCH = `
const { readFileSync } = require('node:fs')
const { workerData: { parent, killBytes, watchMs } } = require('node:worker_threads')
let pausedMs = 0
function isPaused() {
  try {
    const stat = readFileSync('/proc/' + parent.pid + '/stat', 'latin1')
    return stat[stat.lastIndexOf(')') + 2] === 'T'
  } catch {
    return false
  }
}
setInterval(() => {
  pausedMs = isPaused() ? pausedMs + watchMs : 0
  const isTooLarge = killBytes !== null && process.memoryUsage.rss() > killBytes
  if (process.ppid !== parent.pid || pausedMs > parent.pauseMsMax || isTooLarge) process.kill(process.pid, 'SIGKILL')
}, watchMs)`

function watchParent(): void {
  const { parent, killBytes } = setup
  if (parent === null) return
  const watcher = new Thread(WATCH, {
    eval: true,
    workerData: { parent, killBytes, watchMs: WATCH_MS },
    name: 'holdfast-watch',
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16 },
  })
  watcher.unref()
  // Without it the end of the channel still ends an idle child.
  watcher.on('error', () => {})
  process.on('disconnect', () => process.exit(0))
  // A terminal and a service manager send these to every process of the group. The host drains; the child ends when the host says so.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
}

async function loadHandlers(): Promise<ReadonlyMap<string, Handler>> {
  const handlers = handlersOf(await loadModule(new URL(setup.module)))
  if (handlers !== null) return resolveHandlers(handlers)
  throw new HoldfastError(
    'module_failed',
    `${setup.module} exports no handlers: export a list, as in export const handlers = [sendEmail.handle(async (payload, ctx) => { … })]`,
  )
}

function onUncaught(error: unknown): void {
  if (!attributeUncaught(error)) fail(error)
}

markChild()
watchParent()
process.on('uncaughtException', onUncaught)
process.on('unhandledRejection', onUncaught)
try {
  const handlers = await loadHandlers()
  const run = new ChildRun(handlers, send)
  const receive = (message: ToChild) => run.receive(message)
  if (parentPort !== null) parentPort.on('message', receive)
  else process.on('message', receive)
  const tellAlive = () => send({ kind: 'alive', rssBytes: isMainThread ? process.memoryUsage.rss() : 0 })
  setInterval(tellAlive, ALIVE_MS).unref()
  send({ kind: 'ready', types: [...handlers.keys()] })
} catch (error) {
  fail(error)
}
