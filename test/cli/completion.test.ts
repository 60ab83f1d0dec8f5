import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { run } from './support.js'

/** What bash offers after these words; the last is what was typed of the next. */
function complete(script: string, words: readonly string[]): readonly string[] {
  const typed = ['holdfast', ...words].map((word) => `'${word}'`).join(' ')
  const ask = `${script}\nCOMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, stderr } = spawnSync('bash', ['-c', ask], { encoding: 'utf8' })
  expect(stderr).toBe('')
  return stdout.split('\n').filter(Boolean)
}

describe('completion', () => {
  test('bash offers commands, options and choices', async () => {
    const { code, stdout, stderr } = await run(['completion', 'bash'])

    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(complete(stdout, ['jo'])).toEqual(['jobs'])
    expect(complete(stdout, ['jobs', 're'])).toEqual(['requeue'])
    expect(complete(stdout, ['dlq', 'requeue', '--dr'])).toEqual(['--dry-run'])
    expect(complete(stdout, ['dlq', 'requeue', '--per'])).toEqual(['--per-second'])
    expect(complete(stdout, ['jobs', 'list', '--color', ''])).toEqual(['auto', 'always', 'never'])
    expect(complete(stdout, ['--url', 'x', 'schedules', 'add', 'a', '--overlap', 's'])).toEqual(['skip'])
    expect(complete(stdout, ['completion', ''])).toEqual(expect.arrayContaining(['bash', 'zsh', 'fish']))
  })

  test.each([
    { shell: 'zsh', says: ['#compdef holdfast', `' jobs') offers=(`, `'list:list jobs that match a filter'`] },
    {
      shell: 'fish',
      says: [
        `complete -c holdfast -n '__holdfast_at' -a 'jobs' -d 'look at jobs and change them'`,
        `complete -c holdfast -n '__holdfast_at jobs list' -l color -x -a 'auto always never'`,
      ],
    },
  ])('$shell gets a script made from the same tree', async ({ shell, says }) => {
    const { code, stdout } = await run(['completion', shell])

    expect(code).toBe(0)
    for (const part of says) expect(stdout).toContain(part)
  })

  test.each(['bash', 'zsh'])('the script for %s can be read by its shell', async (shell) => {
    const { stdout } = await run(['completion', shell])
    const { status, error, stderr } = spawnSync(shell, ['-n'], { input: stdout, encoding: 'utf8' })

    // A shell that is not installed has nothing to say.
    if (error === undefined) expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  })
})
