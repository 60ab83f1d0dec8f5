// Bugs of flow control in SQL, to be planted into the PostgreSQL store one at a time: what a hurried change could do to it. Each text is
// replaced where it is found, and it is there exactly once.

export type Edit = readonly [find: string, replace: string]

export interface FlowBug {
  readonly name: string
  /** By the name of a function of the schema. */
  readonly functions?: Readonly<Record<string, readonly Edit[]>>
  /** By the name of a statement. */
  readonly statements?: Readonly<Record<string, readonly Edit[]>>
  /** Sent before a statement, in a transaction of its own, with the ids of its jobs. */
  readonly before?: Readonly<Record<string, string>>
  /** What finds it: random histories, the comparison with the memory store, concurrent callers, or the facts about turns. */
  readonly by: 'history' | 'property' | 'race' | 'turns'
  /** Hunted only when asked for: it may take more tries than the test command has time for. */
  readonly takesLong?: true
}

const CLAIM = 'claim_flow_25'

function inClaim(name: string, by: FlowBug['by'], ...edits: readonly Edit[]): FlowBug {
  return { name, by, functions: { [CLAIM]: edits } }
}

/** In what setQueue does to held jobs and their groups. */
function inWalk(name: string, by: FlowBug['by'], ...edits: readonly Edit[]): FlowBug {
  return { name, by, functions: { walk_held: edits } }
}

function inStatements(name: string, by: FlowBug['by'], statements: FlowBug['statements']): FlowBug {
  return { name, by, statements: statements! }
}

/** No event for the groups of these rows. */
const noEvent = (rows: string): readonly Edit[] => [[`WHERE ${rows}.track > 0 AND (`, 'WHERE false AND (']]

const LOCK = 'FROM :schema.flows WHERE flows.queue = p_queue FOR NO KEY UPDATE;'
const COUNT_OF_GROUP = `(SELECT count(*)::integer
                               FROM (SELECT FROM :schema.running
                                      WHERE running.track = ANY (v_all) AND running.track <> 0 AND running.group_name = cand.group_name
                                      LIMIT bound.concurrency) AS busy)`
/** As TAKE_ONE_EACH has it: whether a job of the group runs. */
const GROUP_RUNS = `EXISTS (SELECT FROM :schema.running
                                    WHERE running.track = ANY (v_all) AND running.track <> 0 AND running.group_name = cand.group_name)`
/** An event of a settlement only if a held job of its group is seen. */
const onlyIfSeen = (end: string, row: string, group: string): readonly Edit[] => [
  [
    end,
    `${end}\n   WHERE EXISTS (SELECT FROM :schema.held WHERE held.track = ${row}.track AND held.group_name = ${group})`,
  ],
]

/** Those that were not seen to be found soon each time. */
const LONG: readonly string[] = [
  'jobs that run when their queue gets a limit do not count in it',
  'a requeue writes no event',
  'setQueue writes no event',
  'a group that naps is never woken',
  'an order that is switched on does not sort what waits',
  'a requeued job goes before those that overtook it',
  'a start takes one token, whatever it costs',
  'a group that was told to wait is claimed',
  'a breaker lets any number of probes start',
  'a breaker is never half open',
  'the depth of a group is counted in one track alone',
]

const BUGS: readonly FlowBug[] = [
  // What makes it exact.
  inClaim(
    'claims take no lock',
    'race',
    [LOCK, 'FROM :schema.flows WHERE flows.queue = p_queue;'],
    ['ORDER BY limits.name\n                FOR NO KEY UPDATE LOOP', 'ORDER BY limits.name LOOP'],
  ),
  inClaim(
    'the claim locks and looks in one statement',
    'race',
    ['  v_i        integer;\nBEGIN', '  v_i        integer;\n  v_busy     jsonb;\nBEGIN'],
    [
      `SELECT * INTO f ${LOCK}`,
      `SELECT (SELECT coalesce(jsonb_object_agg(busy.name, busy.number), '{}')
                FROM (SELECT running.group_name AS name, count(*) AS number FROM :schema.running
                       WHERE running.queue = p_queue GROUP BY 1) AS busy)
         INTO v_busy ${LOCK}
       SELECT * INTO f FROM :schema.flows WHERE flows.queue = p_queue;`,
    ],
    [COUNT_OF_GROUP, 'coalesce((v_busy ->> cand.group_name)::integer, 0)'],
    [GROUP_RUNS, 'v_busy ? cand.group_name'],
  ),
  inClaim('a limit is counted for each worker', 'history', [
    'running.track = ANY (lim.tracks) AND running.track <> 0 LIMIT v_n',
    'running.track = ANY (lim.tracks) AND running.track <> 0 AND running.worker = p_worker LIMIT v_n',
  ]),
  inClaim('plain jobs do not count in the limit of their queue', 'history', ['p_worker, - f.number,', 'p_worker, 0,']),
  inStatements('jobs that run when their queue gets a limit do not count in it', 'history', {
    count_running_in_flow: [['running.queue = $1 AND running.track = 0', 'false']],
  }),
  // What makes a claim look.
  inStatements('a settlement writes its event only when it sees a held job', 'race', {
    settle_succeeded_flow: onlyIfSeen('IS TRUE) AS event', 'event', 'event.group_name'),
    settle_any: onlyIfSeen('     OFFSET 0\n   ) AS tracks', 'tracks', 'touched.group_name'),
  }),
  {
    name: 'a settlement writes its event in a transaction of its own',
    by: 'race',
    statements: { settle_succeeded_flow: [["WHERE gone.track > 0 AND gone.group_name <> ''", 'WHERE false']] },
    before: {
      settle_succeeded_flow: `
INSERT INTO :schema.arrivals (turn, track, group_name)
SELECT nextval(':schema.positions') * 65536, tracks.track, running.group_name
  FROM :schema.running
  JOIN :schema.tracks ON tracks.queue = running.queue
 WHERE running.id = ANY ($1::uuid[]) AND running.group_name <> ''`,
    },
  },
  inStatements('a failed attempt writes no event', 'history', { settle_any: noEvent('ended') }),
  inStatements('a rescue writes no event', 'history', { settle_unlocked: noEvent('ended') }),
  inStatements('a cancel writes no event', 'history', { cancel: noEvent('cancelled') }),
  inStatements('a promotion writes no event', 'history', { promote: noEvent('placed') }),
  inStatements('a requeue writes no event', 'property', { requeue: noEvent('placed') }),
  inStatements('resumeGroup writes no event', 'history', {
    offer_group: [['WHERE tracks.queue = $1', 'WHERE tracks.queue = $1 AND false']],
  }),
  inWalk('setQueue writes no event', 'property', [
    'IF NOT EXISTS (SELECT FROM :schema.rotation WHERE rotation.track = v_track AND rotation.group_name = v_group) THEN',
    'IF false THEN',
  ]),
  inClaim('a group that naps is never woken', 'property', [
    'IF EXISTS (SELECT FROM :schema.naps WHERE naps.track = ANY (v_all) AND naps.until <= v_now_ms) THEN',
    'IF false THEN',
  ]),
  inClaim('a group whose first jobs the worker does not know is forgotten', 'property', [
    "v_end := CASE WHEN c.seen > v_known THEN 'last' ELSE 'off' END;",
    "v_end := 'off';",
  ]),
  // Order.
  inClaim(
    'an ordered group does not look at its other tracks',
    'history',
    ['earlier.position < first.position', 'false'],
    ['earlier.position < head.position', 'false'],
  ),
  inClaim(
    'a job that retries frees its ordered group',
    'history',
    ['CASE WHEN f.ordered AND f.waits_for_retry\n', 'CASE WHEN false\n'],
    ['WHEN f.waits_for_retry\n', 'WHEN false\n'],
  ),
  inStatements('the death of a job stops no group', 'property', {
    settle_any: [['flows.ordered AND flows.stops_for_dead', 'false']],
    settle_unlocked: [['flows.ordered AND flows.stops_for_dead', 'false']],
  }),
  inWalk('an order that is switched on does not sort what waits', 'property', [
    'IF c.own_priority <> c.priority OR c.own_position <> c.position THEN',
    'IF false THEN',
  ]),
  inStatements('a requeued job goes before those that overtook it', 'property', {
    requeue: [
      [
        '(SELECT flows.stops_for_dead FROM :schema.flows WHERE flows.queue = gone.queue) IS TRUE AS keeps_place',
        'true AS keeps_place',
      ],
    ],
  }),
  // Fair turns.
  inClaim(
    'newcomers wait until nobody else has a turn',
    'turns',
    [
      'NULL, false, news.places FROM news WHERE NOT news.is_listed',
      'NULL, false, news.places FROM news WHERE NOT news.is_listed AND NOT EXISTS (SELECT FROM listed)',
    ],
    [
      'news.turn, false FROM news WHERE NOT news.is_listed',
      'news.turn, false FROM news WHERE NOT news.is_listed AND NOT EXISTS (SELECT FROM listed)',
    ],
  ),
  inClaim(
    'the rest of a turn is lost when the claim ends within it',
    'turns',
    ["CASE WHEN v_end = 'kept' THEN c.turn ELSE v_base + cardinality(v_stay) END", 'v_base + cardinality(v_stay)'],
    [
      "v_credits := v_credits || CASE WHEN v_end = 'kept' THEN c.length - v_taken END;",
      'v_credits := v_credits || NULL::integer;',
    ],
  ),
  inClaim('weights are not looked at', 'turns', ['coalesce(own.weight, 1) * greatest', '1 * greatest']),
  // Rates, waits, breakers.
  inClaim('a start takes no token of a limit', 'history', [
    'UPDATE :schema.limits SET empty_at = v_empties[v_i] WHERE limits.name = lim.name;',
    'NULL;',
  ]),
  inClaim('a start takes no token of its group', 'history', [
    'SET empty_at = excluded.empty_at',
    'SET empty_at = groups.empty_at',
  ]),
  {
    name: 'a start takes one token, whatever it costs',
    by: 'property',
    functions: { cost_of: [["THEN least((options #>> '{flow,cost}')::float8, 1e9) ELSE 1 END", 'THEN 1 ELSE 1 END']] },
  },
  inClaim('a group that was told to wait is claimed', 'property', ['c.seen > 0 AND c.not_before > v_now_ms', 'false']),
  inClaim('a limit that was told to wait lets jobs start', 'property', [
    'greatest(lim.not_before, CASE',
    'greatest(0, CASE',
  ]),
  inClaim('a paused group is claimed', 'history', ['CASE WHEN own.paused THEN 0', 'CASE WHEN false THEN 0']),
  inClaim('a breaker lets any number of probes start', 'property', [
    "IF lim.forced IS NULL AND lim.position <> 'closed' THEN v_n := lim.probes; END IF;",
    '',
  ]),
  inClaim('a breaker that is held open lets jobs start', 'property', [
    "CASE WHEN lim.forced = 'open' THEN 0 ELSE v_n END",
    'v_n',
  ]),
  inClaim('a breaker is never half open', 'property', [
    "UPDATE :schema.limits SET position = 'half_open', since",
    "UPDATE :schema.limits SET position = 'closed', since",
  ]),
  // Back-pressure.
  inStatements('the depth of a group is counted in one track alone', 'property', {
    count_ready_of_groups: [
      [
        'ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = $1)',
        'ARRAY(SELECT tracks.track FROM :schema.tracks WHERE tracks.queue = $1 ORDER BY 1 LIMIT 1)',
      ],
    ],
  }),
]

/** Every bug. */
export const FLOW_BUGS: readonly FlowBug[] = BUGS.map((bug) =>
  LONG.includes(bug.name) ? { ...bug, takesLong: true } : bug,
)
