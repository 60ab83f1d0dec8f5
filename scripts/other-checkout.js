// Prepares a folder with another commit of the product and this lab, to be measured in turns with this build:
// node scripts/other-checkout.js <commit> <folder>; then npm run bench -- fleet --against <folder>. Packages are linked, not copied.
// Remove it with: git worktree remove --force <folder>.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'

const [commit, folder] = process.argv.slice(2)
if (commit === undefined || folder === undefined) {
  console.error('usage: node scripts/other-checkout.js <commit> <folder>')
  process.exit(2)
}
const place = resolve(folder)
if (!existsSync(place)) run('git', ['worktree', 'add', '--detach', place, commit])
if (!existsSync(join(place, 'node_modules'))) run('cp', ['-al', 'node_modules', place])
// Only this lab has the program that is measured. Its parts for other programs may not fit the older product, so types are not checked;
// the program itself uses what the package exports.
rmSync(join(place, 'lab'), { recursive: true, force: true })
cpSync('lab', join(place, 'lab'), { recursive: true, filter: (path) => !path.includes('node_modules') })
rmSync(join(place, '.lab'), { recursive: true, force: true })
const tsc = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', '.lab', '--noCheck']
run(process.execPath, tsc, place)
console.error(`${place} is ready`)

function run(program, words, cwd) {
  const { status } = spawnSync(program, words, { stdio: 'inherit', cwd })
  if (status !== 0) process.exit(status ?? 1)
}
