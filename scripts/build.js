// Builds dist/: src/ and lab/ compiled, the types that users reach, and the dashboard. It is put in place at the end, so that a
// failed build leaves the last one unchanged. All of dist/ is published, so it holds only what users need: comments stay in the
// types, for editors, and are removed from the code.
import { isUtf8 } from 'node:buffer'
import { spawnSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import { transformSync } from 'esbuild'
import { build as bundle } from 'vite'
import { indentWithTabs } from './indent-with-tabs.js'

const MAKING = 'dist.next'
const TSC = ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json', '--outDir', MAKING]
rmSync(MAKING, { recursive: true, force: true })
run(...TSC, '--declaration', '--emitDeclarationOnly')
// Checked above.
run(...TSC, '--noCheck', '--removeComments')
dropUnreachedTypes()
compactCode()
await writeHeartbeatCode()
chmodSync(`${MAKING}/src/cli/main.js`, 0o755)
run('node_modules/vite/bin/vite.js', 'build', 'dashboard', '--outDir', `../${MAKING}/web`, '--logLevel', 'warn')
writeText('src/server/web.js', 'WEB', packedWeb())
rmSync('dist', { recursive: true, force: true })
renameSync(MAKING, 'dist')

/** Users step through the library, so it stays readable. The commands and the lab are for running only. */
function compactCode() {
  const names = readdirSync(MAKING, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
  for (const file of names.map((name) => join(MAKING, name))) {
    const code = readFileSync(file, 'utf8')
    const isForRunning = ['lab/', 'src/cli/'].some((folder) => file.startsWith(join(MAKING, folder)))
    writeFileSync(
      file,
      isForRunning ? transformSync(code, { minify: true, target: 'node20' }).code : indentWithTabs(code),
    )
  }
}

/** Writes a text into the module that holds it. */
function writeText(path, name, text) {
  const file = join(MAKING, path)
  if (!readFileSync(file, 'utf8').includes(`export const ${name} = null`))
    throw new Error(`${file} has no place for ${name}`)
  writeFileSync(file, `export const ${name} = ${JSON.stringify(text)};\n`)
}

/** The heartbeat thread with everything it needs, for programs that are bundled themselves. */
async function writeHeartbeatCode() {
  const entry = join(MAKING, 'src/heartbeat-bundle.js')
  const made = await bundle({
    configFile: false,
    logLevel: 'warn',
    build: { ssr: entry, write: false, minify: true, target: 'node20', rollupOptions: { output: { format: 'cjs' } } },
    // These two are optional for the driver.
    ssr: { noExternal: true, external: ['pg-native', 'pg-cloudflare'], target: 'node' },
  })
  writeText('src/worker/heartbeat-code.js', 'HEARTBEAT_CODE', packed(made.output[0].code))
  rmSync(entry)
}

/** The dashboard's files in one text. */
function packedWeb() {
  const folder = join(MAKING, 'web')
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  const paths = names.map(({ parentPath, name }) => join(parentPath, name)).sort()
  const files = paths.map((path) => [relative(folder, path).replaceAll('\\', '/'), readText(path)])
  return packed(JSON.stringify(Object.fromEntries(files)))
}

/** A file that must be text: bytes that are not UTF-8 would be lost. */
function readText(path) {
  const bytes = readFileSync(path)
  if (!isUtf8(bytes)) throw new Error(`${path} is not text, and the packed dashboard holds only text`)
  return bytes.toString('utf8')
}

function packed(text) {
  return brotliCompressSync(text).toString('base64')
}

/** Removes the types of files that no entry of the package reaches: commands, the lab, the internals of stores. */
function dropUnreachedTypes() {
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8'))
  const entries = Object.values(exports).flatMap(({ types }) => (types === undefined ? [] : [types]))
  const left = entries.map((types) => normalize(types.replace('./dist', MAKING)))
  const reached = new Set()
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (reached.has(file)) continue
    reached.add(file)
    const imports = readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?'(\.[^']+)\.js'/g)
    for (const [, target] of imports) left.push(normalize(join(dirname(file), `${target}.d.ts`)))
  }
  const all = readdirSync(MAKING, { recursive: true, encoding: 'utf8' })
  for (const name of all.filter((name) => name.endsWith('.d.ts'))) {
    if (!reached.has(join(MAKING, name))) rmSync(join(MAKING, name))
  }
}

function run(...command) {
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
