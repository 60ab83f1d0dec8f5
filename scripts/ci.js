// Everything that must hold before a change lands, in one command: `npm run ci`. Stops at the first step that fails.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openToolbox } from './toolbox.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-ci-'))
const reports = ['tests', 'node-22', 'node-24', 'proof'].map((name) => join(folder, `${name}.json`))
// These take both cores for minutes. Tests that wait for real processes and servers would take longer beside them.
const PROOF = ['chaos', 'experiments', 'simulator-bugs'].map((name) => `test/lab/${name}.test.ts`)
// The suites that differ between versions of Node: the runtime, both stores' contract, threads, handlers in TypeScript.
const BY_VERSION = [
  ...['core', 'client', 'worker', 'upkeep', 'testing', 'metrics', 'tracing'].map((name) => `test/${name}/`),
  ...['stores/memory', 'stores/postgres', 'cli/worker', 'crash/paused'].map((name) => `test/${name}.test.ts`),
]
const vitest = (report, ...words) => [
  'node_modules/vitest/vitest.mjs',
  'run',
  ...words,
  '--reporter=default',
  '--reporter=json',
  `--outputFile.json=${report}`,
]
const steps = [
  ['build', 'scripts/build.js'],
  ['format and lint', 'node_modules/@biomejs/biome/bin/biome', 'ci', '--error-on-warnings', '.'],
  ['types', 'node_modules/typescript/bin/tsc', '--noEmit', '-p', 'tsconfig.json'],
  ['types of the dashboard', 'node_modules/typescript/bin/tsc', '--noEmit', '-p', 'dashboard/tsconfig.json'],
  ['unused exports', 'node_modules/knip/bin/knip.js'],
  ['tests', ...vitest(reports[0], ...PROOF.map((file) => `--exclude=${file}`))],
  ['tests on Node 22', { node: 22 }, ...vitest(reports[1], ...BY_VERSION)],
  ['tests on Node 24', { node: 24 }, ...vitest(reports[2], ...BY_VERSION)],
  ['proof: chaos, simulator, experiments', ...vitest(reports[3], ...PROOF)],
]

// Tests that need a missing one of these fail and name the command that installs it. The others run anyway.
for (const name of ['browser', 'faketime', 'patroni', 'pgbouncer', 'postgres-15', 'redis', 'toolbox']) {
  spawnSync(process.execPath, [`scripts/${name}.js`, '--install'], { stdio: ['ignore', 'ignore', 'inherit'] })
}

let failed = false
for (const [name, ...words] of steps) {
  const began = performance.now()
  console.log(`\n── ${name}`)
  const status = runStep(words)
  console.log(`── ${name}: ${status === 0 ? 'ok' : 'failed'} in ${((performance.now() - began) / 1000).toFixed(1)} s`)
  if (status !== 0) {
    failed = true
    break
  }
}

function runStep([first, ...command]) {
  if (typeof first === 'string') return spawnSync(process.execPath, [first, ...command], { stdio: 'inherit' }).status
  try {
    return spawnSync(openToolbox().nodes[first.node], command, { stdio: 'inherit' }).status
  } catch (error) {
    console.error(error.message)
    return 1
  }
}

const counted = reports.filter((report) => existsSync(report)).map((report) => JSON.parse(readFileSync(report, 'utf8')))
const sum = (field) => counted.reduce((all, report) => all + report[field], 0)
console.log(
  counted.length === 0
    ? '\nthe tests did not run'
    : `\ntests: ${sum('numPassedTests')} passed, ${sum('numFailedTests')} failed, ${sum('numPendingTests')} skipped`,
)
rmSync(folder, { recursive: true, force: true })
process.exit(failed ? 1 : 0)
