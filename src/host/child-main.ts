// The program of a child: loads the module, runs the jobs its host sends, and ends with its host. It is the first module of a process or a thread of
// its own, so it puts its parts together itself.

import { isMainThread, parentPort, Worker as Thread, workerData } from 'node:worker_threads'
import type { Handler } from '../core/definition.js'
import { HoldfastError } from '../core/errors.js'
import { attributeUncaught } from '../worker/current-job.js'
import { checkMiddleware, runThrough } from '../worker/middleware.js'
import { resolveHandlers } from '../worker/options.js'
import { ChildRun } from './child-run.js'
import { handlersOf, loadModule, middlewareOf } from './load-module.js'
import { markChild } from './options.js'
import { type ChildSetup, enclosed, type FromChild, MEMORY_SIGNAL, sendError, type ToChild } from './protocol.js'

const ALIVE_MS = 1_000
const WATCH_MS = 200

const setup = (isMainThread ? JSON.parse(process.argv[2]!) : workerData) as ChildSetup

function send(message: FromChild, onSent: () => void = () => {}): void {
  if (parentPort !== null) {
    parentPort.postMessage(enclosed(message))
    onSent()
  } else if (process.connected) process.send!(enclosed(message), onSent)
  else onSent()
}

/** Reports an error that ends the child, and ends it. */
function fail(error: unknown): void {
  send({ kind: 'failed', error: sendError(error) }, () => process.exit(1))
}

// A thread of this process that needs nothing of the first one: a handler that computes without end stops neither a timer nor a look there. The child
// ends, with everything that its handlers started, when its parent is gone and when the parent stands still for so long that its leases may run out.
// It also ends when it holds too much memory: by a signal that the host knows the reason from, then by force.
const WATCH = `
const { readFileSync } = require('node:fs')
const { workerData: { parent, killBytes, watchMs, memorySignal } } = require('node:worker_threads')
let pausedMs = 0
let isTooLarge = false
function end() {
  if (process.platform !== 'win32') process.kill(-process.pid, 'SIGKILL')
  process.kill(process.pid, 'SIGKILL')
}
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
  if (process.ppid !== parent.pid || pausedMs > parent.pauseMsMax || isTooLarge) end()
  isTooLarge = killBytes !== null && process.memoryUsage.rss() > killBytes
  if (isTooLarge) process.kill(process.pid, memorySignal)
}, watchMs)`

function watchParent(): void {
  const { parent, killBytes } = setup
  if (parent === null) return
  const watcher = new Thread(WATCH, {
    eval: true,
    workerData: { parent, killBytes, watchMs: WATCH_MS, memorySignal: MEMORY_SIGNAL },
    name: 'holdfast-watch',
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16 },
  })
  watcher.unref()
  // Without it the end of the channel still ends an idle child.
  watcher.on('error', () => {})
  // The host closed the channel, is gone, or a handler closed it: nothing that runs here can be settled any more.
  process.on('disconnect', leave)
  if (!process.connected) leave()
  // A terminal and a service manager send these to every process of the group. The host drains; the child ends when the host says so.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
}

/** Ends an idle child in good order, and one with jobs together with what their handlers started. */
function leave(): void {
  if (run === null || run.inHand === 0 || process.platform === 'win32') process.exit(0)
  process.kill(-process.pid, 'SIGKILL')
}

interface Loaded {
  readonly handlers: ReadonlyMap<string, Handler>
  readonly hasMiddleware: boolean
}

/** The handlers of the module, each inside of what the module puts around runs. */
async function loadHandlers(): Promise<Loaded> {
  const loaded = await loadModule(new URL(setup.module))
  const list = handlersOf(loaded)
  if (list === null) {
    throw new HoldfastError(
      'module_failed',
      `${setup.module} exports no handlers: export a list, as in export const handlers = [sendEmail.handle(async (payload, ctx) => { … })]`,
    )
  }
  const handlers = resolveHandlers(list)
  const middleware = middlewareOf(loaded)
  if (middleware === null) return { handlers, hasMiddleware: false }
  const around = middleware.map((one) => checkMiddleware(one as object, `middleware of ${setup.module}`))
  return {
    handlers: new Map([...handlers].map(([type, handler]) => [type, runThrough(around, handler)])),
    hasMiddleware: true,
  }
}

function onUncaught(error: unknown): void {
  if (!attributeUncaught(error)) fail(error)
}

let run: ChildRun | null = null

markChild()
watchParent()
process.on('uncaughtException', onUncaught)
process.on('unhandledRejection', onUncaught)
try {
  const { handlers, hasMiddleware } = await loadHandlers()
  const running = new ChildRun(handlers, send)
  run = running
  const receive = (message: ToChild) => running.receive(message)
  if (parentPort !== null) {
    parentPort.on('message', receive)
    // A handler closed it: how its job ends could not be reported, so the thread ends now.
    parentPort.on('close', () => process.exit(1))
  } else process.on('message', receive)
  const tellAlive = () => send({ kind: 'alive', rssBytes: isMainThread ? process.memoryUsage.rss() : 0 })
  setInterval(tellAlive, ALIVE_MS).unref()
  send({ kind: 'ready', types: [...handlers.keys()], hasMiddleware })
} catch (error) {
  fail(error)
}
