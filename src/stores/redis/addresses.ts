// Which servers a URL names: redis://host, redis+cluster://h1,h2 or redis+sentinel://h1,h2/<name of the primary>, each also as rediss with TLS.

import { HoldfastError } from '../../core/errors.js'
import { redactUrl } from '../../core/url.js'

export type Addresses =
  | { readonly kind: 'server'; readonly url: string }
  | { readonly kind: 'cluster'; readonly seeds: readonly string[] }
  | { readonly kind: 'sentinel'; readonly sentinels: readonly string[]; readonly name: string; readonly url: string }

const HOSTS_MAX = 32
const LOOKS_LIKE = 'it must look like redis://user:password@host:6379/0, or rediss:// with TLS'
const PARTS = /^(rediss?)(?:\+(cluster|sentinel))?:\/\/([^/?#]*@)?([^/?#@]+)(\/[^?#]*)?(\?[^#]*)?$/s
const HOST = /^(?:\[[0-9a-fA-F:.%]+\]|[^\s:/?#@,[\]]+)(?::\d{1,5})?$/

/** Reads a URL. Raises `invalid_url`. */
export function addressesOf(url: string): Addresses {
  const read = readAddresses(url)
  if ('kind' in read) return read
  throw new HoldfastError('invalid_url', `${redactUrl(url)} cannot be used: ${read.why}`)
}

/** Reads a URL, or says why it cannot be used. */
export function readAddresses(url: string): Addresses | { readonly why: string } {
  const [, scheme, kind, credentials = '', hosts = '', path = '', query = ''] = PARTS.exec(url) ?? []
  if (scheme === undefined) return { why: LOOKS_LIKE }
  if (kind === undefined) {
    if (hosts.includes(',')) {
      return { why: 'it names several hosts: write redis+cluster:// for a cluster, redis+sentinel:// for sentinels' }
    }
    return URL.canParse(url) ? { kind: 'server', url } : { why: LOOKS_LIKE }
  }
  const list = hosts.split(',')
  if (list.length > HOSTS_MAX) return { why: `it must name 1 to ${HOSTS_MAX} hosts` }
  const bad = list.findIndex((host) => !HOST.test(host) || !URL.canParse(`redis://${host}`))
  if (bad !== -1)
    return { why: `host ${bad + 1} of ${list.length} must be a name or an address, with or without :port` }
  const urls = (own: string, port: number) => list.map((host) => `${scheme}://${own}${withPort(host, port)}`)
  if (kind === 'cluster') {
    if (!/^\/?0?$/.test(path)) return { why: 'a cluster has no databases: leave out what follows the hosts' }
    return { kind, seeds: urls(credentials, 6_379) }
  }
  const [, name, database = '', ...more] = path.split('/')
  if (!name || more.length > 0 || !/^\d*$/.test(database)) {
    return {
      why: 'it must end with the name of the primary, as in redis+sentinel://host1,host2/mymaster or …/mymaster/0',
    }
  }
  const options = new URLSearchParams(query)
  const unknown = [...options.keys()].find((option) => option !== 'sentinelUser' && option !== 'sentinelPassword')
  if (unknown !== undefined)
    return { why: `"${unknown}" is not an option: there are sentinelUser and sentinelPassword` }
  const user = encodeURIComponent(options.get('sentinelUser') ?? '')
  const password = options.get('sentinelPassword')
  const own = password === null ? '' : `${user}:${encodeURIComponent(password)}@`
  return {
    kind: 'sentinel',
    sentinels: urls(own, 26_379),
    name: decodeURIComponent(name),
    url: `${scheme}://${credentials}primary/${database}`,
  }
}

function withPort(host: string, port: number): string {
  return /\]$|^[^:]+$/.test(host) ? `${host}:${port}` : host
}
