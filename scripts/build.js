// Builds dist/: src/ and lab/ compiled, the SQL files beside them, and the dashboard.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
cpSync('src/stores/postgres/migrations', 'dist/src/stores/postgres/migrations', { recursive: true })
chmodSync('dist/src/cli/main.js', 0o755)
run('node_modules/vite/bin/vite.js', 'build', 'dashboard', '--logLevel', 'warn')

function run(...command) {
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
