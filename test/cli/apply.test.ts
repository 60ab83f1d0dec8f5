// holdfast apply: flow control from files.

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, test, vi } from 'vitest'
import { openTestStore } from './store.js'
import { makeProject, run } from './support.js'

// Each test starts several processes; on a busy machine each takes seconds.
vi.setConfig({ testTimeout: 180_000 })

const store = openTestStore('apply')
const { holdfastCommand } = store

const FLOW = `# Who may call whom how often.
limits:
  stripe: { concurrency: 20, rate: 100/s }
  mailer:
    concurrency: { min: 2, max: 50 }
    breaker: { failures: 0.5, cooldown: 15s }
queues:
  billing:
    maxDepth: 100000
    groups: { concurrency: 2 }
groups:
  billing:
    acme: { concurrency: 10, weight: 3 }
    007: { weight: 2 }
`

/** Runs apply with a file of this text. */
async function apply(text: string, ...words: readonly string[]) {
  const folder = await makeProject({ 'flow.yaml': text })
  return holdfastCommand(['apply', 'flow.yaml', ...words], { cwd: folder })
}

describe('apply', () => {
  test('says what would change and exits with 7, changes it, and then has nothing to change', async () => {
    const dry = await apply(FLOW, '--dry-run')
    const before = await store.holdfast.readFlow()
    const made = await apply(FLOW, '--by', 'deploy')
    const again = await apply(FLOW, '--dry-run')
    const changed = await apply(FLOW.replace('rate: 100/s', 'rate: { limit: 50, per: 10s, burst: 5 }'), '--dry-run')

    expect(dry.code, dry.stderr).toBe(7)
    expect(dry.stdout).toMatch(/^\+ limit stripe\n {4}concurrency {2}20\n {4}rate {9}100\/s$/m)
    expect(dry.stderr).toContain('5 changes would be made')
    expect(before).toEqual({ limits: {}, queues: {}, groups: {} })
    expect(made).toMatchObject({ code: 0, stdout: dry.stdout })
    expect(await store.holdfast.readFlow()).toMatchObject({
      limits: { stripe: { concurrency: 20, rate: '100/s' } },
      queues: { billing: { maxDepth: 100_000, groups: { concurrency: 2 } } },
      groups: { billing: { acme: { concurrency: 10, weight: 3 }, '007': { weight: 2 } } },
    })
    expect((await store.holdfast.audit()).entries.map(({ actor }) => actor)).toEqual(Array(5).fill('deploy'))
    expect(again).toMatchObject({ code: 0, stdout: '' })
    expect(again.stderr).toContain('everything is as the file says')
    expect(changed.stdout).toBe('~ limit stripe\n    rate  100/s → 50/10s, burst 5\n')
  })

  test('what is exported is a file that changes nothing, in YAML and in JSON', async () => {
    const group = 'a "b": #c \u202e 漢'
    await store.holdfast.setGroup('billing', group, { weight: 5 })
    const yaml = await holdfastCommand(['apply', '--export'])
    const json = await holdfastCommand(['apply', '--export', '--json'])

    const same = await apply(yaml.stdout, '--prune', '--dry-run')
    const sameJson = await apply(json.stdout, '--prune', '--dry-run', '--json')
    await store.holdfast.setGroup('billing', group, null)

    expect(yaml.stdout).not.toContain('\u202e')
    expect(same, same.stderr).toMatchObject({ code: 0, stdout: '' })
    expect(JSON.parse(json.stdout)).toMatchObject({ schemaVersion: 1, groups: { billing: { [group]: { weight: 5 } } } })
    expect(JSON.parse(sameJson.stdout)).toEqual({ schemaVersion: 1, dryRun: true, changes: [], refused: [] })
  })

  test('with --prune takes away what the file does not name, after a yes', async () => {
    await store.holdfast.setLimit('old', { concurrency: 1 })
    await store.holdfast.setLimit('used', {})
    const { id } = await store.holdfast.enqueue('a', {}, { queue: 'naming', limits: ['used'] })

    const kept = await apply(FLOW)
    const dry = await apply(FLOW, '--prune', '--dry-run')
    const unasked = await apply(FLOW, '--prune')
    const pruned = await apply(FLOW, '--prune', '--yes')
    await store.holdfast.cancel(id)

    expect(kept).toMatchObject({ code: 0, stdout: '' })
    expect(dry).toMatchObject({ code: 7, stdout: '- limit old\n    concurrency  1\n- limit used\n' })
    expect(unasked).toMatchObject({ code: 2, stdout: '' })
    expect(unasked.stderr).toContain('Take away the settings of limit old, limit used?')
    expect(pruned).toMatchObject({ code: 6, stdout: '- limit old\n    concurrency  1\n' })
    expect(pruned.stderr).toContain('limit "used" cannot be removed')
    expect((await store.holdfast.limits()).map(({ name }) => name)).not.toContain('old')
  })

  test('reads stdin', async () => {
    const { code, stdout } = await holdfastCommand(['apply', '-', '--dry-run'], { input: '{"limits":{"piped":{}}}' })

    expect({ code, stdout }).toEqual({ code: 7, stdout: '+ limit piped\n' })
  })

  test('makes a new embedded store, as enqueue does; a dry run does not', async () => {
    const folder = await makeProject({ 'flow.yaml': 'limits: { stripe: { concurrency: 5 } }' })

    const dry = await run(['apply', 'flow.yaml', '--dry-run'], { cwd: folder })
    const made = await run(['apply', 'flow.yaml'], { cwd: folder })

    expect(dry.code).toBe(3)
    expect(made.code, made.stderr).toBe(0)
  })
})

describe('a file with mistakes', () => {
  test('is refused as a whole, each mistake with its line, and needs no store for that', async () => {
    const folder = await makeProject({
      'flow.yaml': [
        'limits:',
        '  fine: { concurrency: 1 }',
        '  stripe: { concurency: 20 }',
        '  mailer:',
        '    rate: 100/s',
        '    breaker:',
        '      failures: 2',
        'queues:',
        '  billing:',
        '    timeout: 5s',
        '  orders:',
        '    groups:',
        '      concurrency: 2',
        '      ordered: true',
      ].join('\n'),
    })

    const { code, stdout, stderr } = await run(['apply', 'flow.yaml'], { cwd: folder })

    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    const lines = stderr.split('\n').map((line) => line.trim())
    expect(lines[0]).toBe('error: flow.yaml has 4 mistakes; nothing was changed')
    expect(lines[1]).toMatch(
      /^flow\.yaml:3: limits\.stripe\.concurency is not a setting here; did you mean concurrency\?/,
    )
    expect(lines[2]).toMatch(/^flow\.yaml:7: limits\.mailer\.breaker\.failures: .*up to 1, got 2$/)
    expect(lines[3]).toMatch(/^flow\.yaml:10: queues\.billing\.timeout is not flow control/)
    expect(lines[4]).toMatch(/^flow\.yaml:1[12]: queues\.orders.*jobs that run concurrently have no order$/)
  })

  test.each([
    ['limits: {', /flow\.yaml:1: /],
    ['limits:\n  a: {}\n  a: {}', /flow\.yaml:3: Map keys must be unique/],
    ['limits:\n  7: {}\n  "7": {}', /flow\.yaml:3: 7 is there twice/],
    ['limits: &x {}\nqueues: *x', /flow\.yaml:2: an alias is not read here/],
    ['limits: !!js/function "x"', /flow\.yaml:1: Unresolved tag/],
    ['limits: {}\n---\nqueues: {}', /multiple documents/],
    ['- limits', /must be an object of settings, got an array/],
    ['limits:\n  a:', /flow\.yaml:2: limits\.a must be an object of settings, got null; \{\} sets nothing/],
    ['{"limits":\n{"a":{"rate":"fast"}}}', /flow\.yaml:2: limits\.a\.rate/],
    ['schemaVersion: 2', /flow\.yaml:1: schemaVersion is not a setting here/],
    ['[[[['.repeat(5_000), /flow\.yaml/],
  ])('%# is refused', async (text, says) => {
    const { code, stdout, stderr } = await apply(text)

    expect({ code, stdout }, stderr).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(says)
  })

  test('a missing file, no file, or one beside --export is said so', async () => {
    const missing = await holdfastCommand(['apply', 'nowhere.yaml'])
    const none = await holdfastCommand(['apply'])
    const both = await holdfastCommand(['apply', 'flow.yaml', '--export'])

    expect(missing.code).toBe(3)
    expect(missing.stderr).toContain('there is no file nowhere.yaml')
    expect([none.code, both.code]).toEqual([2, 2])
  })

  test('an empty file changes nothing', async () => {
    expect(await apply('# nothing yet\n')).toMatchObject({ code: 0, stdout: '' })
  })
})

/** Runs something while no row can be written to groups. */
async function withoutGroups<T>(call: () => Promise<T>): Promise<T> {
  const sql = new pg.Client({ connectionString: store.url })
  await sql.connect()
  try {
    await sql.query(`ALTER TABLE ${store.schema}.groups ADD CONSTRAINT none_for_now CHECK (weight IS NULL) NOT VALID`)
    return await call()
  } finally {
    await sql.query(`ALTER TABLE ${store.schema}.groups DROP CONSTRAINT none_for_now`)
    await sql.end()
  }
}

describe('a failure halfway', () => {
  test('prints what was applied, and the error', async () => {
    const folder = await makeProject()
    const limits = Array.from({ length: 3 }, (_, index) => `  half${index}: {}`).join('\n')
    const groups = `groups:\n  halfway: { acme: { weight: 2 } }`
    await writeFile(join(folder, 'flow.yaml'), `limits:\n${limits}\n${groups}\n`)

    const blocked = await withoutGroups(() => holdfastCommand(['apply', 'flow.yaml'], { cwd: folder }))

    expect(blocked.code).not.toBe(0)
    expect(blocked.stdout).toBe('+ limit half0\n+ limit half1\n+ limit half2\n')
    expect(blocked.stderr).toContain('3 of 4 changes of flow control are made; that of group "acme" of queue "halfway"')
  })
})
