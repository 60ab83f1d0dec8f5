// Builds the lab and runs one of its programs: node scripts/lab.js bench [options]. HOLDFAST_LAB_OUT names the folder it is
// built into, so that two runs of different code do not overwrite each other; default .lab. All contenders are measured on Node
// 24, because the newest versions of the peers need it.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { openToolbox } from './toolbox.js'

const NODE_MAJOR = 24

const out = process.env.HOLDFAST_LAB_OUT || '.lab'
const [program, ...options] = process.argv.slice(2)
const run = (...command) => {
  const { status } = spawnSync(command[0], command.slice(1), { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
run(process.execPath, 'node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', out)
const entry = join(out, 'lab', program ?? '', 'main.js')
if (!existsSync(entry)) {
  console.error(`the lab has no program ${JSON.stringify(program)}; it has: bench`)
  process.exit(2)
}
// Signals are passed on, so that the program can stop its servers.
const child = spawn(node(), [entry, ...options], { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('exit', (code) => process.exit(code ?? 1))

function node() {
  if (Number.parseInt(process.versions.node, 10) >= NODE_MAJOR) return process.execPath
  return openToolbox({ isInstalling: true }).nodes[NODE_MAJOR]
}
