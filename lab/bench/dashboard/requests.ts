// Every request that the dashboard makes to show something, taken from its pages (dashboard/src/views).

/** One request to the server's API. */
export interface DashboardRequest {
  /** Its name in tables. */
  readonly name: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: unknown
}

/** Jobs of the filled store, one in each state. */
export interface KnownJobs {
  readonly ready: string
  readonly dead: string
  readonly running: string
  readonly succeeded: string
  readonly fingerprint: string
}

/** One filter of each kind, and those behind the page of a queue and the tiles of the overview. */
const FILTERS: readonly string[] = [
  ...['', 'state:ready', 'state:running', 'state:scheduled', 'state:retrying', 'state:succeeded', 'state:cancelled'],
  ...[
    'state:dead',
    'state:blocked',
    'state:ready,running,retrying',
    '-state:succeeded',
    'queue:email',
    '-queue:default',
  ],
  ...['state:ready queue:email', 'state:dead queue:email', 'state:scheduled queue:sync', 'queue:e*', 'type:charge'],
  ...['type:none', 'tag:eu', '-tag:eu', 'reason:attempts', 'worker:worker-3', 'key:key-1999990', 'schedule:nightly-1'],
  ...[
    'error:"timed out"',
    'payload.user.id:42',
    'attempt:>2',
    'priority:2',
    'created:<1m',
    'created:>1d',
    'finished:<1h',
  ],
]

/** The requests, in the order of the pages. */
export function dashboardRequests(known: KnownJobs): readonly DashboardRequest[] {
  const filters = [...FILTERS, `fingerprint:${known.fingerprint}`, `id:${known.ready}`]
  const get = (name: string, path: string): DashboardRequest => ({ name, method: 'GET', path })
  return [
    get('me', '/v1/me'),
    get('overview: queues', '/v1/queues'),
    get('overview: warnings', '/v1/warnings'),
    get('overview: workers', '/v1/workers'),
    ...[
      ['15m', '10s'],
      ['1h', '10s'],
      ['6h', '1m'],
      ['24h', '5m'],
    ].flatMap(([since, step]) => [
      get(`series of ${since}`, `/v1/series?since=${since}&step=${step}`),
      get(`series of ${since}, one queue`, `/v1/series?queue=email&since=${since}&step=${step}`),
    ]),
    get('stats', '/stats'),
    get('stats of the longest queue', '/stats?queue=default'),
    get('queue', '/v1/queues/default'),
    ...filters.map((filter) => get(`jobs ${filter}`, `/v1/jobs?limit=50&filter=${encodeURIComponent(filter)}`)),
    ...filters.map((filter) =>
      get(`count ${filter}`, `/v1/jobs/count?max=100000&filter=${encodeURIComponent(filter)}`),
    ),
    ...(['ready', 'dead', 'running', 'succeeded'] as const).flatMap((state) => [
      get(`job (${state})`, `/v1/jobs/${known[state]}`),
      get(`explain (${state})`, `/v1/jobs/${known[state]}/explain`),
    ]),
    get('payload', `/v1/jobs/${known.dead}/payload`),
    get('dead groups', '/v1/dlq/groups'),
    get('dead groups, one queue', '/v1/dlq/groups?queue=email'),
    get('schedules', '/v1/schedules'),
    get('audit', '/v1/audit?limit=50'),
    get('audit by actor', '/v1/audit?limit=50&actor=grace'),
    get('audit by action', '/v1/audit?limit=50&action=pause'),
    get('bulk actions', '/v1/bulk'),
    ...[
      'state:dead',
      `fingerprint:${known.fingerprint}`,
      'state:ready queue:email',
      'state:dead payload.user.id:42',
    ].map(
      (filter): DashboardRequest => ({
        name: `dry run ${filter}`,
        method: 'POST',
        path: '/v1/bulk',
        body: { action: filter.startsWith('state:ready') ? 'cancel' : 'requeue', filter, dryRun: true },
      }),
    ),
  ]
}

/** Calls a server's fetch handler with its own token; raises when the answer is an error. */
export async function ask(
  server: { fetch(request: Request): Promise<Response> },
  token: string,
  { name, method, path, body }: DashboardRequest,
): Promise<unknown> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', host: 'localhost' }
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
  const response = await server.fetch(new Request(`http://localhost${path}`, init))
  const text = await response.text()
  if (!response.ok) throw new Error(`${name}: ${response.status} ${text.slice(0, 300)}`)
  return JSON.parse(text)
}

/** Finds a job in each state. */
export async function findKnownJobs(
  server: { fetch(request: Request): Promise<Response> },
  token: string,
): Promise<KnownJobs> {
  const first = async (state: string) => {
    const path = `/v1/jobs?limit=1&filter=state:${state}`
    const page = (await ask(server, token, { name: state, method: 'GET', path })) as { jobs: { id: string }[] }
    return page.jobs[0]!.id
  }
  const groups = (await ask(server, token, { name: 'groups', method: 'GET', path: '/v1/dlq/groups' })) as {
    groups: { fingerprint: string }[]
  }
  return {
    ready: await first('ready'),
    dead: await first('dead'),
    running: await first('running'),
    succeeded: await first('succeeded'),
    fingerprint: groups.groups[0]!.fingerprint,
  }
}
