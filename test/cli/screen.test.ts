import { describe, expect, test } from 'vitest'
import { openTestStore } from './store.js'
import { hasTerminal, startInTerminal } from './support.js'

const store = openTestStore('screen')

// Needs a terminal, which the program `script` of Linux provides.
describe.skipIf(!hasTerminal)('in a terminal', () => {
  test('top uses the whole screen, updates it, and restores the terminal on q', async () => {
    await store.holdfast.enqueue('waits', null, { queue: 'drawn' })
    const top = startInTerminal(['top', '--every', '250ms'], store.at)
    await top.line(/drawn/)

    await store.holdfast.enqueue('waits', null, { queue: 'appeared' })
    await top.line(/appeared/)
    top.type('q')
    const { code, stdout } = await top.ended

    expect(code).toBe(0)
    expect(stdout).toContain('\u001b[?1049h')
    expect(stdout.lastIndexOf('\u001b[?1049l')).toBeGreaterThan(stdout.lastIndexOf('\u001b[H'))
    expect(stdout).toContain('\u001b[?25h')
  })

  test('a long text is cut to the width of the terminal, and --wide shows it', async () => {
    await store.kill('long', [`${'word '.repeat(60)}end`])

    const cut = await startInTerminal(['dlq', 'list', '--queue', 'long', '--color', 'never'], store.at).ended
    const wide = await startInTerminal(['dlq', 'list', '--queue', 'long', '--wide'], store.at).ended

    const lines = cut.stdout.split('\r\n').filter(Boolean)
    expect(lines[1]).toMatch(/^[0-9a-f]{6} .*…$/)
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100)
    expect(wide.stdout).toContain('word end')
  })

  test('a terminal that is too narrow shows fewer columns, unless they were named', async () => {
    await store.holdfast.enqueue('waits', null, { queue: 'narrow' })
    const columns = (text: string) => text.split('\r\n')[0]!.trim().split(/ +/)

    const few = await startInTerminal(['stats', '--queue', 'narrow', '--color', 'never'], store.at, 60).ended
    const named = await startInTerminal(
      ['stats', '--queue', 'narrow', '--color', 'never', '--columns', 'queue,in,done,failed,blocked'],
      store.at,
      30,
    ).ended

    expect(columns(few.stdout)).toContain('ready')
    expect(columns(few.stdout)).not.toContain('failed')
    expect(columns(named.stdout)).toEqual(['queue', 'in', 'done', 'failed', 'blocked'])
  })

  test('a bulk action asks with the count, and changes nothing without a yes', async () => {
    await store.holdfast.enqueueMany('waits', [1, 2, 3], { queue: 'asked' })

    const declined = startInTerminal(['jobs', 'cancel', '--queue', 'asked'], store.at)
    await declined.text(/3 jobs match; 3 can be cancelled\. Cancel them\? \[y\/N\]/)
    declined.type('n\r')
    const { stdout } = await declined.ended
    const untouched = await store.holdfast.count({ queue: 'asked', state: 'ready' })
    const agreed = startInTerminal(['jobs', 'cancel', '--queue', 'asked'], store.at)
    await agreed.text(/\[y\/N\]/)
    agreed.type('y\r')
    const { code } = await agreed.ended

    expect(stdout).toContain('nothing was changed')
    expect(untouched.count).toBe(3)
    expect(code).toBe(0)
    expect(await store.holdfast.count({ queue: 'asked', state: 'cancelled' })).toMatchObject({ count: 3 })
  })
})
