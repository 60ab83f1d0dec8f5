// What a worker can be told about children, checked when it is given.

import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { checkWhole } from '../core/check.js'
import type { Handler, Isolate } from '../core/definition.js'
import { HoldfastError, show } from '../core/errors.js'
import { childProgram } from './channel.js'

/** How a worker runs handlers in children: processes that do nothing else. */
export interface HostOptions {
  /** How many child processes run the handlers, from 0 to 64. Without it only definitions with `isolate` run in children, in as many as there are
   *  processor cores, at most `concurrency`. Jobs are spread evenly, so each child runs up to `concurrency` ÷ `processes` concurrently. 0 runs
   *  every handler in this thread, whatever its definition says: for tests. */
  readonly processes?: number
  /** The module that children load their handlers from, as a file: URL or a path. Its `handlers`, or its default export, is the list; its
   *  `middleware`, one or a list, is around their runs. Give it where a handler runs in a child: a function cannot be sent there. */
  readonly module?: URL | string
  /** The memory of one child in MiB, from 32. Default 512; null for no limit. Its heap is limited to this. A child that holds more in all is
   *  replaced when its jobs have ended; one that holds twice as much is ended. */
  readonly childMemory?: number | null
  /** After how many jobs a child is replaced. Default null: never. */
  readonly childJobs?: number | null
}

/** The settings of a host, complete. */
export interface HostSettings {
  /** Where the handler of a type runs; types that run in the worker's own thread are not in it. */
  readonly isolated: ReadonlyMap<string, Isolate>
  readonly module: URL
  /** How many children of each kind there are, and the most jobs each runs. */
  readonly children: number
  readonly jobsPerChild: number
  readonly memoryBytes: number | null
  readonly jobsMax: number | null
  readonly leaseMs: number
  /** Whether the worker's own process has middleware around its runs: the module of its children must say what is around theirs. */
  readonly hasRunMiddleware: boolean
}

const PROCESSES_MAX = 64
const MEMORY_MIB_DEFAULT = 512
const MEMORY_MIB_MIN = 32
const MIB = 1024 * 1024

/** The options about children, and those about the worker. */
export function splitHostOptions<Options extends object>(
  options: Options & HostOptions,
): readonly [HostOptions, Options] {
  const { processes, module, childMemory, childJobs, ...others } = (options ?? {}) as HostOptions
  const given = Object.entries({ processes, module, childMemory, childJobs }).filter(([, value]) => value !== undefined)
  return [Object.fromEntries(given), options == null ? options : (others as Options)]
}

interface HostedWorker {
  readonly handlers: ReadonlyMap<string, Handler>
  readonly concurrency: number
  readonly leaseMs: number
  readonly hasRunMiddleware?: boolean
}

/** Checks the options and fills in what is left out. Null when every handler runs in the worker's own thread. */
export function resolveHostOptions(options: HostOptions, worker: HostedWorker): HostSettings | null {
  const { processes, module, childMemory = MEMORY_MIB_DEFAULT, childJobs = null } = options
  if (processes !== undefined) checkWhole('processes', processes, 0, PROCESSES_MAX)
  if (childMemory !== null) checkWhole('childMemory', childMemory, MEMORY_MIB_MIN, 1024 * 1024)
  if (childJobs !== null) checkWhole('childJobs', childJobs, 1, 1_000_000_000)
  const file = module === undefined ? null : checkModule(module)
  if (processes === 0) return null
  const isolated = new Map<string, Isolate>()
  for (const { definition } of worker.handlers.values()) {
    const isolate = definition.isolate ?? (processes === undefined ? null : 'process')
    if (isolate !== null) isolated.set(definition.type, isolate)
  }
  if (isolated.size === 0) return null
  if (file === null) throw moduleMissing(processes, isolated)
  childProgram()
  const children = processes ?? Math.min(availableParallelism(), worker.concurrency, PROCESSES_MAX)
  return {
    isolated,
    module: file,
    children,
    jobsPerChild: mostFor(Math.ceil(worker.concurrency / children)),
    memoryBytes: childMemory === null ? null : childMemory * MIB,
    jobsMax: childJobs,
    leaseMs: worker.leaseMs,
    hasRunMiddleware: worker.hasRunMiddleware === true,
  }
}

// Twice its share, so that the others run what a child that ended had in hand until there is another. One job for each child stays one.
function mostFor(share: number): number {
  return share === 1 ? 1 : 2 * share
}

function checkModule(module: unknown): URL {
  const url = readModule(module)
  if (url?.protocol === 'file:' && existsSync(fileURLToPath(url))) return url
  throw new HoldfastError(
    'invalid_option',
    `module must be the file: URL or the path of a module that is there, as in new URL('./jobs.js', import.meta.url), got ${show(module instanceof URL ? module.href : module)}`,
  )
}

function readModule(module: unknown): URL | null {
  if (module instanceof URL) return module
  if (typeof module !== 'string' || module === '') return null
  return /^\w+:\/\//.test(module) && URL.canParse(module) ? new URL(module) : pathToFileURL(resolve(module))
}

function moduleMissing(processes: number | undefined, isolated: ReadonlyMap<string, Isolate>): HoldfastError {
  const [type] = isolated.keys()
  const cause = processes === undefined ? `the definition of "${type}" has isolate` : `processes is ${processes}`
  return new HoldfastError(
    'invalid_option',
    `${cause}, and a function cannot be sent to a child: name the module the handlers are in as well, as in module: new URL('./jobs.js', import.meta.url)`,
  )
}

const MARK = Symbol.for('holdfast.child')

/** Marks this thread as a child. */
export function markChild(): void {
  ;(globalThis as Record<symbol, unknown>)[MARK] = true
}

/** Raises `wrong_state` in a child: a module that starts workers while a child loads it would start children without end. */
export function refuseInChild(): void {
  if (!(MARK in globalThis)) return
  throw new HoldfastError(
    'wrong_state',
    'worker() was called in a child of a worker: put the handlers in a module of their own, which the program that starts the worker imports, and name that one as `module`',
  )
}
