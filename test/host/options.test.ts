// The options of a worker with children.

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { inherited } from '../../src/host/channel.js'
import { type HostOptions, resolveHostOptions } from '../../src/host/options.js'
import { connect, defineJob } from '../../src/index.js'
import { testHoldfast } from '../../src/testing/index.js'

const file = join(mkdtempSync(join(tmpdir(), 'holdfast-host-')), 'jobs.mjs')
writeFileSync(file, 'export const handlers = []')

const plain = defineJob('plain').handle(() => {})
const apart = defineJob('apart', { isolate: 'process' }).handle(() => {})
const threaded = defineJob('threaded', { isolate: 'thread' }).handle(() => {})

function resolve(options: HostOptions, handlers = [plain]) {
  const byType = new Map(handlers.map((handler) => [handler.definition.type, handler]))
  return resolveHostOptions(options, { handlers: byType, concurrency: 10, leaseMs: 30_000 })
}

describe('host options', () => {
  test('without processes and isolate there are no children', () => {
    expect(resolve({})).toBeNull()
    expect(resolve({ module: file })).toBeNull()
  })

  test('processes takes every handler, but those that ask for a thread', () => {
    const settings = resolve({ processes: 4, module: file }, [plain, apart, threaded])

    expect(settings).toMatchObject({ children: 4, jobsPerChild: 6, module: pathToFileURL(file) })
    expect([...settings!.isolated]).toEqual([
      ['plain', 'process'],
      ['apart', 'process'],
      ['threaded', 'thread'],
    ])
  })

  test('isolate takes the definition that has it, and no other', () => {
    const settings = resolve({ module: pathToFileURL(file) }, [plain, apart])

    expect([...settings!.isolated]).toEqual([['apart', 'process']])
  })

  test('as many processes as jobs: one job for each', () => {
    expect(resolve({ processes: 10, module: file })!.jobsPerChild).toBe(1)
  })

  test('processes: 0 runs everything in the worker', () => {
    expect(resolve({ processes: 0 }, [apart])).toBeNull()
  })

  test.each<[HostOptions, string]>([
    [{ processes: 2 }, 'name the module'],
    [{ processes: -1 }, 'processes'],
    [{ processes: 65, module: file }, 'processes'],
    [{ processes: 2, module: './nowhere.js' }, 'module must be'],
    [{ processes: 2, module: new URL('https://example.com/jobs.js') }, 'module must be'],
    [{ processes: 2, module: 5 as never }, 'module must be'],
    [{ processes: 2, module: file, childMemory: 4 }, 'childMemory'],
    [{ processes: 2, module: file, childJobs: 0 }, 'childJobs'],
  ])('%j is refused when it is given', (options, why) => {
    expect(() => resolve(options)).toThrowError(
      expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining(why) }),
    )
  })

  test('isolate without a module is refused by worker(), and one that is neither process nor thread by defineJob()', async () => {
    await using holdfast = await connect('memory:')

    expect(() => holdfast.worker({ handlers: [apart] })).toThrowError(
      expect.objectContaining({
        code: 'invalid_option',
        message: expect.stringContaining('the definition of "apart" has isolate'),
      }),
    )
    expect(() => defineJob('odd', { isolate: 'container' as never })).toThrowError(
      expect.objectContaining({ code: 'invalid_option' }),
    )
  })

  test('tests of isolated jobs need no module: drain runs them in place', async () => {
    await using stage = await testHoldfast()
    const sandboxed = defineJob('sandboxed', { isolate: 'process' })
    await stage.holdfast.enqueue(sandboxed, {})

    const [job] = await stage.drain([sandboxed.handle(() => process.pid)])

    expect(job).toMatchObject({ state: 'succeeded', result: process.pid })
  })
})

describe('the options of Node that a child starts with', () => {
  test.each([
    [
      ['--import', './hooks.js', '--enable-source-maps'],
      ['--import', './hooks.js', '--enable-source-maps'],
    ],
    [
      ['--inspect-port', '9333', '-r', './first.js'],
      ['-r', './first.js'],
    ],
    [['--inspect=0.0.0.0:9229', '--watch-path', 'src', '--watch'], []],
    [['--max-old-space-size=100', '--test-name-pattern', 'one', '--no-warnings'], ['--no-warnings']],
    [['--no-warnings', '--input-type=module', '-e', '-1'], ['--no-warnings']],
    [['--input-type', 'module', '--eval=run()', '--no-warnings'], ['--no-warnings']],
    [['-pe', '--no-warnings', '--no-deprecation'], ['--no-deprecation']],
  ])('%j: %j', (given, kept) => {
    expect(inherited(given)).toEqual(kept)
  })
})
