// Completes the lock files after `npm install`: the package's own, and those of lab/. A registry that mirrors only this platform's
// binaries leaves those of the other platforms out of the lock file, and then `npm ci` refuses it everywhere. Each missing one is
// added with the version its parent requires and the platform in its name, so that npm skips other platforms.
import { readFileSync, writeFileSync } from 'node:fs'

const FILES = ['package-lock.json', 'lab/peers/package-lock.json', 'lab/toolbox/package-lock.json']
const systems = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32', 'aix', 'netbsd', 'openbsd', 'sunos']
const processors = ['arm64', 'arm', 'x64', 'ia32', 'ppc64', 'riscv64', 's390x', 'loong64', 'mips64el', 'wasm32']

for (const file of FILES) {
  const lock = JSON.parse(readFileSync(file, 'utf8'))
  for (const parent of Object.values({ ...lock.packages })) {
    for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
      const key = `node_modules/${name}`
      if (lock.packages[key] !== undefined) continue
      const parts = name.split('/').at(-1).split(/[-.]/)
      const os = systems.filter((system) => parts.includes(system))
      const cpu = processors.filter((processor) => parts.includes(processor))
      if (os.length + cpu.length === 0) throw new Error(`${name} names no platform: install it, or leave it out`)
      const libc = parts.some((part) => part.startsWith('musl')) ? ['musl'] : parts.includes('gnu') ? ['glibc'] : []
      lock.packages[key] = {
        version: version.replace(/^[\^~]/, ''),
        cpu,
        ...(parent.dev ? { dev: true } : {}),
        ...(libc.length > 0 && os.includes('linux') ? { libc } : {}),
        optional: true,
        ...(os.length > 0 ? { os } : {}),
      }
    }
  }
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)))
  writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`)
}
