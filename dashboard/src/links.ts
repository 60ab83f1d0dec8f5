// Addresses of the dashboard's own pages and of the API, and which foreign addresses may become links.

/** Query parameters as they are written into an address; those without a value are left out. */
export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>

/** A path with its query. */
export function withQuery(path: string, query: Query): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') parameters.set(name, String(value))
  }
  // Colons and commas are not escaped, so that a filter in an address stays readable.
  const text = parameters.toString().replaceAll('%3A', ':').replaceAll('%2C', ',')
  return text === '' ? path : `${path}?${text}`
}

// Half of a surrogate pair, which an address cannot hold. Names in jobs may contain anything.
const HALF_CHARACTERS = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** A name or an id as one part of a path. Never raises. */
export function segment(text: string): string {
  return encodeURIComponent(text.replace(HALF_CHARACTERS, '\ufffd'))
}

/** What `segment` made a part of a path from. The router has decoded all but the characters that mean something in an
 *  address, such as the colon, which names of queues have too. Never raises. */
export function readSegment(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The jobs page, narrowed by a filter. */
export function jobsPath(filter: string): string {
  return withQuery('/jobs', { filter })
}

/** The page of one job. */
export function jobPath(id: string): string {
  return `/jobs/${segment(id)}`
}

/** The page of one queue. */
export function queuePath(name: string): string {
  return `/queues/${segment(name)}`
}

/** The page of one limit. */
export function limitPath(name: string): string {
  return `/limits/${segment(name)}`
}

/** The API's path of a group, and of what is done to it. A path cannot have `.` and `..` as parts, so these names go into the query. */
export function groupApiPath(queue: string, group: string, verb?: 'pause' | 'resume'): string {
  const isDots = group === '.' || group === '..'
  const path = `v1/queues/${segment(queue)}/groups/${isDots ? '-' : segment(group)}${verb === undefined ? '' : `/${verb}`}`
  return isDots ? withQuery(path, { group }) : path
}

/** The dead letters of one queue. */
export function deadPath(queue: string): string {
  return withQuery('/dead', { queue })
}

/** The address when it is one a browser opens as a web page, else null: job content must never become a script. */
export function webAddress(text: string): string | null {
  if (!/^https?:\/\//i.test(text) || text.length > 2_000) return null
  try {
    const { protocol, href } = new URL(text)
    return protocol === 'http:' || protocol === 'https:' ? href : null
  } catch {
    return null
  }
}
