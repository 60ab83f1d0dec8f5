// Builds dist/: the code compiled from src/, the SQL files beside it, and the dashboard.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json')
cpSync('src/stores/postgres/migrations', 'dist/stores/postgres/migrations', { recursive: true })
if (existsSync('dist/cli/main.js')) chmodSync('dist/cli/main.js', 0o755)
run('node_modules/vite/bin/vite.js', 'build', 'dashboard', '--logLevel', 'warn')

function run(...command) {
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
