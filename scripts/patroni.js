// Finds Patroni, etcd and HAProxy, which the experiment with failovers puts around PostgreSQL 15, and prints their paths. With --install it
// installs Debian's, as root. Nothing of them is started as a service.
import { installPackage, isProgram } from './debian.js'

const INSTALL_MS = 240_000
const PROGRAMS = { patroni: '/usr/bin/patroni', 'etcd-server': '/usr/bin/etcd', haproxy: '/usr/sbin/haproxy' }

const isInstalling = process.argv.includes('--install')
const missing = Object.entries(PROGRAMS).flatMap(([name, path]) => (isProgram(path) ? [] : [name]))
const isThere = missing.every((name) => isInstalling && installPackage(name, INSTALL_MS) && isProgram(PROGRAMS[name]))
if (!isThere) {
  console.error(
    'failovers by Patroni are left out without it: run `apt-get install -y --no-install-recommends patroni etcd-server haproxy postgresql-15` as root (`npm run ci` does it when it runs as root on Debian)',
  )
  process.exit(1)
}
for (const path of Object.values(PROGRAMS)) console.log(path)
