// The conformance suite for workers over HTTP: the reference worker in Python keeps every case, and one that does not is found.

import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { run } from './support.js'

const EXAMPLES = join(import.meta.dirname, '..', '..', 'examples', 'python')
const hasPython = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']).status === 0
const PYTHON = 'python3 -B'

// Without Python 3.9 or later on this machine there is nothing to show for it: apt-get install python3.
describe.skipIf(!hasPython)('holdfast conformance', () => {
  test('the worker in Python keeps every case, SIGKILL and SIGSTOP among them', async () => {
    const worker = `${PYTHON} '${join(EXAMPLES, 'conformance_worker.py')}'`

    const { code, stdout, stderr } = await run(['conformance', '--worker', worker, '--json'])

    const { findings, failed } = JSON.parse(stdout)
    expect(findings.filter(({ ok }: { ok: boolean }) => !ok)).toEqual([])
    expect({ code, failed, stderr }).toEqual({ code: 0, failed: 0, stderr: '' })
    expect(findings.length).toBeGreaterThanOrEqual(18)
  }, 120_000)

  test('a worker that never extends its leases is found, with exit code 7', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'holdfast-conformance-'))
    const library = await readFile(join(EXAMPLES, 'holdfast_worker.py'), 'utf8')
    const broken = library.replace('self._extend(jobs[first : first + 1000])', 'pass')
    expect(broken).not.toBe(library)
    await writeFile(join(folder, 'holdfast_worker.py'), broken)
    await writeFile(join(folder, 'worker.py'), await readFile(join(EXAMPLES, 'conformance_worker.py')))

    const worker = `${PYTHON} '${join(folder, 'worker.py')}'`
    const { code, stdout } = await run(['conformance', '--worker', worker, '--patience', '8'])

    expect(code).toBe(7)
    expect(stdout).toMatch(/NOT OK {2}a job that runs for longer than its lease keeps it/)
    expect(stdout).toMatch(/ok {2}a hundred jobs run once each/)
    await rm(folder, { recursive: true })
  }, 120_000)

  test('a command that ends immediately is said so', async () => {
    const { code, stdout } = await run(['conformance', '--worker', 'echo not a worker', '--patience', '1'])

    expect(code).toBe(7)
    expect(stdout).toMatch(/the worker said: not a worker/)
  }, 120_000)
})
