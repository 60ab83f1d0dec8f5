// Other versions of Node and other package managers, from lab/toolbox. Prints where they are, as one JSON document; with --install
// it installs them first where they are missing.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const FOLDER = join(dirname(fileURLToPath(import.meta.url)), '..', 'lab', 'toolbox')
const MODULES = join(FOLDER, 'node_modules')
/** Two downloads of 50 MB. */
const INSTALL_MS = 300_000

/** The programs by name, installed first if requested. Raises an error that says what to do if one is missing. */
export function openToolbox({ isInstalling = false } = {}) {
  const nodes = Object.fromEntries([22, 24].map((major) => [major, nodeOf(major)]))
  const tools = { nodes, pnpm: join(MODULES, 'pnpm/bin/pnpm.mjs'), yarn: join(MODULES, 'yarn/bin/yarn.js') }
  if (isInstalling && missingOf(tools).length > 0) install()
  const missing = missingOf(tools)
  if (missing.length === 0) return tools
  throw new Error(
    `these are missing: ${missing.join(', ')}; run \`npm ci --ignore-scripts\` in lab/toolbox (\`npm run ci\` does it). It has Node for ${process.platform === 'linux' ? 'this system on x64 and arm64' : 'Linux only'}.`,
  )
}

function nodeOf(major) {
  return join(MODULES, `node-${major}-${process.platform}-${process.arch}`, 'bin', 'node')
}

function missingOf({ nodes, pnpm, yarn }) {
  return [...Object.values(nodes), pnpm, yarn].filter((path) => !existsSync(path))
}

function install() {
  // On stderr: stdout is for what the caller prints.
  const stdio = ['ignore', 2, 2]
  spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: FOLDER, stdio, timeout: INSTALL_MS })
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  try {
    console.log(JSON.stringify(openToolbox({ isInstalling: process.argv.includes('--install') })))
  } catch (error) {
    console.error(error.message)
    process.exit(1)
  }
}
