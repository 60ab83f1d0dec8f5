// Everything that must hold before a change lands, in one command: `npm run ci`. Stops at the first step that fails.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-ci-'))
const report = join(folder, 'vitest.json')
const steps = [
  ['build', 'scripts/build.js'],
  ['format and lint', 'node_modules/@biomejs/biome/bin/biome', 'ci', '--error-on-warnings', '.'],
  ['types', 'node_modules/typescript/bin/tsc', '--noEmit', '-p', 'tsconfig.json'],
  ['types of the dashboard', 'node_modules/typescript/bin/tsc', '--noEmit', '-p', 'dashboard/tsconfig.json'],
  ['unused exports', 'node_modules/knip/bin/knip.js'],
  [
    'tests',
    'node_modules/vitest/vitest.mjs',
    'run',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ],
]

// Without a browser its tests fail and say what to do; the others run all the same.
spawnSync(process.execPath, ['scripts/browser.js', '--install'], { stdio: ['ignore', 'ignore', 'inherit'] })

let failed = false
for (const [name, ...command] of steps) {
  const began = performance.now()
  console.log(`\n── ${name}`)
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  console.log(`── ${name}: ${status === 0 ? 'ok' : 'failed'} in ${((performance.now() - began) / 1000).toFixed(1)} s`)
  if (status !== 0) {
    failed = true
    break
  }
}

try {
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(readFileSync(report, 'utf8'))
  console.log(`\ntests: ${numPassedTests} passed, ${numFailedTests} failed, ${numPendingTests} skipped`)
} catch {
  console.log('\nthe tests did not run')
}
rmSync(folder, { recursive: true, force: true })
process.exit(failed ? 1 : 0)
