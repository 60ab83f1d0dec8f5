// Each example is a complete program that checks what it shows. Here they run as a user would run them: compiled, in a
// project that has the package installed, each in a database of its own.

import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import ts from 'typescript'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillProject, startProgram } from './cli/support.js'
import { type ExampleDatabases, exampleDatabases } from './support/example-databases.js'

const FOLDER = join(import.meta.dirname, '..', 'examples')
const LINES_MAX = 60

const sources = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.ts'))
  .map((file) => ({ name: basename(file, '.ts'), text: readFileSync(join(FOLDER, file), 'utf8') }))
  // Those that show how to test a job stand beside the sources and have a test of their own.
  .filter(({ text }) => text.includes(`from 'holdfast'`))

const project = mkdtempSync(join(tmpdir(), 'holdfast-examples-'))
let databases: ExampleDatabases

beforeAll(async () => {
  const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true }
  const files = sources.map(({ name, text }) => [
    `${name}.js`,
    ts.transpileModule(text, { compilerOptions }).outputText,
  ])
  await fillProject(project, Object.fromEntries(files))
  databases = await exampleDatabases()
})

afterAll(async () => {
  await databases.drop()
  await rm(project, { recursive: true, force: true })
})

test('there are examples', () => {
  expect(sources.length).toBeGreaterThanOrEqual(8)
})

test.each(sources)('$name does what it says', async ({ name, text }) => {
  const url = await databases.make(name)

  const { code, stdout, stderr } = await startProgram([`${name}.js`], { cwd: project, env: { HOLDFAST_URL: url } })
    .ended

  expect(stderr).toBe('')
  expect(code).toBe(0)
  expect(stdout).not.toBe('')
  expect(text.trim().split('\n').length).toBeLessThan(LINES_MAX)
})
