// Builds dist/: src/ and lab/ compiled, the SQL files beside them, and the dashboard. It is put in place at the end, so that a
// build that fails leaves the last one as it was.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, renameSync, rmSync } from 'node:fs'

const MAKING = 'dist.next'
rmSync(MAKING, { recursive: true, force: true })
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', MAKING)
cpSync('src/stores/postgres/migrations', `${MAKING}/src/stores/postgres/migrations`, { recursive: true })
chmodSync(`${MAKING}/src/cli/main.js`, 0o755)
run('node_modules/vite/bin/vite.js', 'build', 'dashboard', '--outDir', `../${MAKING}/web`, '--logLevel', 'warn')
rmSync('dist', { recursive: true, force: true })
renameSync(MAKING, 'dist')

function run(...command) {
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
