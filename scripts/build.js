// Builds dist/ from src/: compiled code and the SQL files beside it.
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs'

rmSync('dist', { recursive: true, force: true })
const tsc = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  stdio: 'inherit',
})
if (tsc.status !== 0) process.exit(tsc.status ?? 1)
cpSync('src/stores/postgres/migrations', 'dist/stores/postgres/migrations', { recursive: true })
if (existsSync('dist/cli/main.js')) chmodSync('dist/cli/main.js', 0o755)
