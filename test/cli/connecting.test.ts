import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeProject, run } from './support.js'

// Nothing listens on port 1.
const UNREACHABLE = 'postgres://app:opensesame@127.0.0.1:1/app'

describe('a store that cannot be reached', () => {
  test('is reported with its code, its URL and what to do, without a stack or the password', async () => {
    const { code, stdout, stderr } = await run(['stats', '--url', UNREACHABLE])

    expect(code).toBe(4)
    expect(stdout).toBe('')
    expect(stderr).toContain('code:  store_unavailable')
    expect(stderr).toContain('store: postgres://app:***@127.0.0.1:1/app (from --url)')
    expect(stderr).toMatch(/^try: {3}/m)
    expect(stderr).not.toContain('opensesame')
    expect(stderr).not.toMatch(/^ +at /m)
  })

  test('shows the stack with --verbose, and still no password', async () => {
    const { code, stderr } = await run(['stats', '--url', UNREACHABLE, '--verbose'])

    expect(code).toBe(4)
    expect(stderr).toMatch(/^ +at /m)
    expect(stderr).not.toContain('opensesame')
  })

  test('is named by the variable it came from', async () => {
    const { stderr } = await run(['stats'], { env: { DATABASE_URL: UNREACHABLE } })

    expect(stderr).toContain('(from DATABASE_URL)')
  })
})

describe('a store that cannot exist', () => {
  test('a wrong URL is a usage error, and its password is not shown', async () => {
    const { code, stderr } = await run(['stats', '--url', 'mysql://app:opensesame@db/app'])

    expect(code).toBe(2)
    expect(stderr).toContain('code:  invalid_url')
    expect(stderr).not.toContain('opensesame')
  })

  test('a command that reads creates no store', async () => {
    const folder = await makeProject()

    const { code, stderr } = await run(['stats'], { cwd: folder })

    expect(code).toBe(3)
    expect(stderr).toContain('there is no embedded store in')
    expect(existsSync(join(folder, '.holdfast'))).toBe(false)
  })
})
