import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeProject, run, start } from './support.js'

// A new store of its own, and examples that take their time.
const SLOW = { timeout: 90_000 }

describe('dev', () => {
  test('shows what happens to each example, stops on Ctrl-C, and continues at the next start', SLOW, async () => {
    const cwd = await makeProject()
    const first = start(['dev'], { cwd, env: { DATABASE_URL: 'postgres://127.0.0.1:1/ignored' } })

    await first.line(/greet +[0-9a-f]{6} {2}succeeded in \d+ ms$/)
    await first.line(/upload_file +[0-9a-f]{6} {2}failed: HTTP 503 · retry in 1 s \(attempt 1 of 5\)$/)
    await first.line(/upload_file +[0-9a-f]{6} {2}failed: HTTP 503 · retry in 2 s \(attempt 2 of 5\)$/)
    const dead = await first.line(/charge_card +[0-9a-f]{6} {2}dead: card expired · its handler dropped it$/)
    await first.line(/remind +[0-9a-f]{6} {2}scheduled for \d\d:\d\d:\d\d, in 5 s$/)
    await first.line(/load +[0-9a-f]{6} {2}blocked until transform [0-9a-f]{6} is done$/)
    await first.line(/load +[0-9a-f]{6} {2}succeeded/)
    await first.line(/render_video +[0-9a-f]{6} {2}80 % · frame 240 of 300$/)
    await first.line(/remind +[0-9a-f]{6} {2}succeeded/)
    await first.line(/clean_up +[0-9a-f]{6} {2}enqueued by its schedule/)
    await first.line(/clean_up +[0-9a-f]{6} {2}succeeded/)
    const shown = await run(['jobs', 'show', idOf(dead), '--json'], { cwd })
    first.signal('SIGINT')
    const stopped = await first.ended
    const second = start(['dev'], { cwd })
    await second.line(/charge_card +[0-9a-f]{6} {2}still dead since .*, not enqueued again$/)
    await second.line(/upload_file +[0-9a-f]{6} {2}succeeded/)
    const stats = await run(['stats', '--queue', 'dev-billing', '--json'], { cwd })
    second.signal('SIGTERM')
    const again = await second.ended

    expect(stopped.code).toBe(0)
    expect(stopped.stdout).toContain(
      'npx holdfast enqueue greet \'{"name":"you"}\' --queue dev --url embedded:.holdfast',
    )
    expect(stopped.stdout).toMatch(/^\d+ jobs ran: \d+ succeeded, \d+ dead, \d+ retr(y|ies)$/m)
    expect(stopped.stdout).toContain('The store keeps everything in .holdfast; the next start continues with it.')
    expect(JSON.parse(shown.stdout).job).toMatchObject({ state: 'dead', reason: 'dropped' })
    expect(JSON.parse(stats.stdout).total.dead).toBeGreaterThan(0)
    expect(again.code).toBe(0)
    expect(again.stdout).toMatch(/^ {2}found {5}.*\d+ dead; it continues with them$/m)
    expect(again.stdout).toMatch(/jobs ran: \d+ succeeded, \d+ dead/)
    // Nothing but lines: no colour, no cursor.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are what it looks for
    expect(`${stopped.stdout}${again.stdout}`).not.toMatch(/\u001b/)
  })

  test('continues with what was running when it was killed', SLOW, async () => {
    const cwd = await makeProject()
    const first = start(['dev'], { cwd })
    const running = idOf(await first.line(/render_video +[0-9a-f]{6} {2}20 %/))
    await first.kill()
    const second = start(['dev'], { cwd })

    await second.line(/^ {2}found .*\d running/)
    await second.line(new RegExp(`render_video +${running} {2}still running in another process, or its worker is gone`))
    await second.line(new RegExp(`render_video +${running} {2}rescued: \\S+ is gone · `))
    await second.line(new RegExp(`render_video +${running} {2}started again, attempt 2`))
    second.signal('SIGINT')
    const { code, stdout } = await second.ended

    expect(code).toBe(0)
    expect(stdout).toMatch(/^stopping: \d+ jobs? running, waiting up to 15 s…/m)
    expect(stdout).toMatch(new RegExp(`render_video +${running} {2}succeeded`))
  })

  test(
    'the address it writes opens the dashboard with the running jobs, even when its port is taken',
    SLOW,
    async () => {
      const blocker = createServer()
      const port = await new Promise<number>((resolve) => {
        blocker.listen(0, '127.0.0.1', () => resolve((blocker.address() as { port: number }).port))
      })
      onTestFinished(() => void blocker.close())
      const cwd = await makeProject()
      const running = start(['dev', '--url', 'memory:', '--port', String(port), '--sign-in-file', 'sign-in'], { cwd })

      await running.line(/^ {2}open {6}http:\/\/localhost:\d+$/)
      await running.line(/an address that signs in once is in \/\S+\/sign-in/)
      await running.line(new RegExp(`Port ${port} is taken by another program, so it uses \\d+$`))
      await running.line(/greet +[0-9a-f]{6} {2}succeeded/)
      const address = new URL(readFileSync(join(cwd, 'sign-in'), 'utf8').trim())
      const signedIn = await fetch(address, { redirect: 'manual' })
      const cookie = signedIn.headers.get('set-cookie')!.split(';')[0]!
      const again = await fetch(address, { redirect: 'manual' })
      const page = await fetch(address.origin, { headers: { cookie } })
      const jobs = await fetch(`${address.origin}/v1/jobs`, { headers: { cookie } })
      const strange = await fetch(`${address.origin}/v1/jobs`)
      running.signal('SIGINT')
      const { code } = await running.ended

      expect(signedIn.status).toBe(303)
      expect(again.headers.get('set-cookie')).toBeNull()
      expect(await page.text()).toMatch(/<!doctype html>/i)
      const queues = ((await jobs.json()) as { jobs: { queue: string }[] }).jobs.map(({ queue }) => queue)
      expect(new Set(queues).size).toBeGreaterThan(2)
      expect(strange.status).toBe(401)
      expect(code).toBe(0)
    },
  )

  test('a folder and --url together are refused', async () => {
    const { code, stderr } = await run(['dev', 'here', '--url', 'memory:'])

    expect(code).toBe(2)
    expect(stderr).toContain('give one of them')
  })
})

function idOf(line: string): string {
  return /[0-9a-f]{6}(?= {2})/.exec(line)![0]
}
