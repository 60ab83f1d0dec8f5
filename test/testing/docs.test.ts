import { readFileSync } from 'node:fs'
import { expect, test, vi } from 'vitest'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

test('the example of testing a job runs', async () => {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})

  await import('../../examples/testing-a-job.js')

  expect(log.mock.calls).toEqual([['all three hold']])
  log.mockRestore()
})

test('the page about testing shows that example', () => {
  const example = read('examples/testing-a-job.ts')
    .replace("'../src/index.js'", "'holdfast'")
    .replace("'../src/testing/index.js'", "'holdfast/testing'")

  const shown = /```ts\n([\s\S]*?)```/.exec(read('docs/testing.md'))?.[1]

  expect(shown).toBe(example)
})
