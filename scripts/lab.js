// Builds the lab and runs one of its programs: node scripts/lab.js bench [options].
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'

const [program, ...options] = process.argv.slice(2)
const run = (...command) => {
  const { status } = spawnSync(command[0], command.slice(1), { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.lab.json')
cpSync('src/stores/postgres/migrations', '.lab/src/stores/postgres/migrations', { recursive: true })
const entry = `.lab/lab/${program}/main.js`
if (!existsSync(entry)) {
  console.error(`the lab has no program ${JSON.stringify(program)}; it has: bench`)
  process.exit(2)
}
run(process.execPath, entry, ...options)
