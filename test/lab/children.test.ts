// Processes that a measurement starts.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Child, type Message } from '../../lab/bench/children.js'

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-children-'))
})
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
})

function start(code: string, deadlineMs = 20_000): Child {
  const file = join(folder, `${Math.random()}.mjs`)
  writeFileSync(file, code)
  return new Child(pathToFileURL(file), { n: 41 }, { name: 'the child', deadlineMs })
}

describe('a child', () => {
  test('receives messages and sends them, in either order', async () => {
    const child = start(`
      process.send({ kind: 'ready', n: JSON.parse(process.argv[2]).n })
      process.on('message', ({ kind, n }) => {
        process.send({ kind, n: n + 1 })
        if (n === 1) process.disconnect()
      })`)

    const ready = await child.hear<Message & { n: number }>('ready')
    const second = await child.ask<Message & { n: number }>({ kind: 'add', n: 2 } as Message)
    const first = await child.ask<Message & { n: number }>({ kind: 'add', n: 1 } as Message)
    await child.ended()

    expect([ready.n, second.n, first.n]).toEqual([41, 3, 2])
  })

  test('that ends without a message fails everyone who waits for one, then and later', async () => {
    const child = start('process.exit(7)')

    await expect(child.hear('ready')).rejects.toThrow('the child ended with 7')
    await expect(child.hear('ready')).rejects.toThrow('the child ended with 7')
    child.send({ kind: 'start' })
  })

  test('is killed at its deadline', async () => {
    const child = start('setInterval(() => {}, 1000)', 200)

    await expect(child.hear('ready')).rejects.toThrow('the child was not done within 0.2 s and was killed')
  })
})
