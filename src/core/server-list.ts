// The servers that a PostgreSQL URL names: postgres://h1:5432,h2:5433,[::1]/db?target_session_attrs=read-write, as libpq writes it.

/** One URL for each server, in order; or why the URL cannot be used. */
export type ServerList = { readonly urls: readonly string[] } | { readonly why: string }

const SERVERS_MAX = 16
const PARTS = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^/?#]*)(.*)$/s
/** What may stand in a list of hosts: a name, an address, an IPv6 address in brackets, a socket's folder with %2F; and a port. */
const HOST = /^(?:\[[0-9a-fA-F:.%]+\]|[^\s:/?#@,[\]]+)(?::\d{1,5})?$/
const LOOKS_LIKE = 'it must look like postgres://user:password@host:5432/database'

/** Reads a URL with one host or several, with ports of their own. `hosts` replaces those of the URL. */
export function serversOf(url: string, hosts?: readonly string[]): ServerList {
  const parts = PARTS.exec(url)
  if (parts === null) return { why: LOOKS_LIKE }
  const [, scheme = '', credentials = '', named = '', rest = ''] = parts
  const query = new URLSearchParams(/\?([^#]*)/s.exec(rest)?.[1] ?? '')
  const wrong = whyNot(query)
  if (wrong !== null) return { why: wrong }
  if (hosts === undefined && !named.includes(',')) return URL.canParse(url) ? { urls: [url] } : { why: LOOKS_LIKE }
  const list = hosts ?? named.split(',')
  if (list.length === 0 || list.length > SERVERS_MAX) return { why: `it must name 1 to ${SERVERS_MAX} hosts` }
  if (query.has('host') || query.has('port')) {
    return { why: 'it lists its hosts, so host= and port= have no meaning in it: write host:port for each' }
  }
  const urls = list.map((host) => `${scheme}${credentials}${host}${rest}`)
  const bad = list.findIndex(
    (host, index) => typeof host !== 'string' || !HOST.test(host) || !URL.canParse(urls[index]!),
  )
  if (bad !== -1) return { why: `host ${bad + 1} of ${list.length} must be a name or an address with or without :port` }
  return { urls: [...new Set(urls)] }
}

const WRITABLE = ['read-write', 'primary', 'any']

function whyNot(query: URLSearchParams): string | null {
  const wanted = query.get('target_session_attrs')
  if (wanted !== null && !WRITABLE.includes(wanted)) {
    return `target_session_attrs must be read-write or primary, because a queue has to write, got "${wanted.slice(0, 40)}"`
  }
  if (query.get('host')?.includes(',')) return 'several hosts go between // and the database: postgres://h1,h2/database'
  return null
}
