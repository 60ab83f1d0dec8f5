// Which names this server answers to. A page elsewhere can point a name of its own at 127.0.0.1 and talk to us as if we
// were its own server; it cannot choose the Host header its browser then sends.

import { checkText } from './check.js'
import { invalidOption } from './errors.js'

/** True for a Host header that is ours. `localPort` is null where the connection is not known. */
export type HostCheck = (host: string | null, localPort: number | null) => boolean

const LOOPBACK = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::(\d{1,5}))?$/
const ENTRY = /^(?:[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?$/
const HOSTS_MAX = 100

/**
 * Letter for letter: browsers send names in lower case and without a dot at the end, and whatever is written in another
 * way is somebody trying. The machine's own names are ours with the port that was connected to, also beside a list: people on
 * the machine and health checks use them. Where the connection is not known, a list is all there is.
 */
export function hostCheck(hosts: readonly string[] | null): HostCheck {
  if (hosts === null) return isMachines
  const known = new Set(checkHosts(hosts))
  return (host, localPort) => host !== null && (known.has(host) || (localPort !== null && isMachines(host, localPort)))
}

function isMachines(host: string | null, localPort: number | null): boolean {
  const match = host === null ? null : LOOPBACK.exec(host)
  if (match === null) return false
  if (localPort === null) return true
  return match[1] === undefined ? localPort === 80 || localPort === 443 : match[1] === String(localPort)
}

function checkHosts(hosts: unknown): readonly string[] {
  if (!Array.isArray(hosts) || hosts.length === 0 || hosts.length > HOSTS_MAX) {
    throw invalidOption(`hosts must be an array of 1 to ${HOSTS_MAX} names`, hosts)
  }
  return hosts.map((host) => {
    if (ENTRY.test(checkText('a host', host, 255))) return host
    throw invalidOption(`a host must be as browsers send it, such as 'queue.example.com' or 'localhost:8080'`, host)
  })
}

/** True for an address that only this machine can reach. */
export function isLoopback(address: string): boolean {
  return address === 'localhost' || address === '::1' || address === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(address)
}
