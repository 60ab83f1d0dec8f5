// The groups of a track in the order of their turns, read lazily, each with what it may give. ◄── claim-flow-function.ts

/** Of one group: how many may run beside those that do; null for any number. */
const FREE = `
                CASE WHEN own.paused THEN 0
                     WHEN cand.group_name = '' OR bound.concurrency IS NULL THEN 1000000
                     ELSE bound.concurrency
                          - (SELECT count(*)::integer
                               FROM (SELECT FROM :schema.running
                                      WHERE running.track = ANY (v_all) AND running.track <> 0 AND running.group_name = cand.group_name
                                      LIMIT bound.concurrency) AS busy)
                          - CASE WHEN f.ordered AND f.waits_for_retry
                                  AND EXISTS (SELECT FROM :schema.scheduled
                                               WHERE scheduled.track = ANY (v_all) AND scheduled.track <> 0
                                                 AND scheduled.fence IS NOT NULL AND scheduled.group_name = cand.group_name) THEN 1 ELSE 0 END
                 END`

/** With aging: the first jobs of each priority compete with what they have gained. Priorities are found by skipping from one to the
 *  next. A job cannot go before those of its own priority that stand before it. Age counts for the first quarter of the turn that each
 *  priority gives: what it gives beyond that, it gives by its priority alone. `only` is a further condition on the jobs. */
export const AGED = (table: 'held' | 'ready', where: string, amount: string, turn: string, only = ''): string => `(
                    WITH RECURSIVE levels (priority) AS (
                      SELECT (SELECT max(${table}.priority) FROM :schema.${table} WHERE ${where})
                       UNION ALL
                      SELECT (SELECT max(${table}.priority) FROM :schema.${table} WHERE ${where} AND ${table}.priority < levels.priority)
                        FROM levels
                       WHERE levels.priority IS NOT NULL
                    )
                    SELECT head.place, head.id, head.position
                      FROM levels
                     CROSS JOIN LATERAL (
                       SELECT ${table}.ctid AS place, ${table}.id, ${table}.position, ${table}.priority,
                              ${rank(table, turn)} AS rank
                         FROM :schema.${table}
                        WHERE ${where} AND ${table}.priority = levels.priority AND (p_types IS NULL OR ${table}.type = ANY (p_types))${only}
                        ORDER BY ${table}.position
                        LIMIT ${amount}
                     ) AS head
                     ORDER BY head.rank DESC, head.priority DESC, head.position
                     LIMIT ${amount})`

function rank(table: string, turn: string): string {
  const aged = `${table}.priority + min(v_now_ms - date_part('epoch', ${table}.since) * 1000) OVER (ORDER BY ${table}.position) / f.aging_ms`
  return `CASE WHEN row_number() OVER (ORDER BY ${table}.position) <= ceil(${turn} / 4.0) THEN ${aged} ELSE ${table}.priority END`
}

// The first jobs of a group are of known types almost always. Otherwise more of them are read.
const HAS_UNKNOWN = `p_types IS NOT NULL
                                   AND EXISTS (SELECT FROM (SELECT few.type FROM :schema.held AS few
                                                             WHERE few.track = v_track AND few.group_name = cand.group_name
                                                             ORDER BY few.priority DESC, few.position
                                                             LIMIT least(room.free, room.length + 1)) AS known
                                                WHERE known.type <> ALL (p_types))`

/** The first jobs of a group, as many as its turn and its slots allow; more of them where that is needed to find jobs of known types. */
const HEADS = `
          SELECT array_agg(first.place) FILTER (WHERE first.known) AS places, array_agg(first.id) FILTER (WHERE first.known) AS ids,
                 CASE WHEN bound.rate_by_cost OR v_by_cost
                      THEN array_agg((SELECT :schema.cost_of(jobs.options) FROM :schema.jobs WHERE jobs.id = first.id))
                             FILTER (WHERE first.known) END AS costs,
                 count(*)::integer AS seen
            FROM ((SELECT held.ctid AS place, held.id, p_types IS NULL OR held.type = ANY (p_types) AS known, held.position
                    FROM :schema.held
                   WHERE held.track = v_track AND held.group_name = cand.group_name AND f.aging_ms IS NULL
                   ORDER BY held.priority DESC, held.position
                   LIMIT CASE WHEN room.free <= 0 THEN 0
                              WHEN f.ordered AND cand.group_name <> '' THEN 1
                              WHEN ${HAS_UNKNOWN} THEN greatest(200, room.length + 1)
                              ELSE least(room.free, room.length + 1) END)
                   UNION ALL
                  (SELECT aged.place, aged.id, true, aged.position FROM ${AGED('held', 'held.track = v_track AND held.group_name = cand.group_name', 'room.length + 1', 'room.length')} AS aged
                    WHERE room.free > 0 AND f.aging_ms IS NOT NULL)) AS first
           WHERE NOT f.ordered OR cand.group_name = '' OR cardinality(v_all) = 1
              OR NOT EXISTS (SELECT FROM :schema.held AS earlier
                              WHERE earlier.track = ANY (v_all) AND earlier.track <> v_track
                                AND earlier.group_name = cand.group_name AND earlier.position < first.position)
`

/** The groups of a track in turn, each with its first jobs. The first row is for arrivals of groups that have a turn already. */
export const IN_TURN: string = `
      WITH listed AS MATERIALIZED (
        SELECT rotation.group_name, rotation.turn, rotation.credit
          FROM :schema.rotation
         WHERE rotation.track = v_track
         ORDER BY rotation.turn
         LIMIT v_amount + 1
      ), came AS MATERIALIZED (
        SELECT arrivals.ctid AS place, arrivals.group_name, arrivals.turn
          FROM :schema.arrivals
         WHERE arrivals.track = v_track AND arrivals.turn > v_floor
         ORDER BY arrivals.turn
         LIMIT v_window
      ), news AS MATERIALIZED (
        SELECT came.group_name, min(came.turn) AS turn, array_agg(came.place) AS places,
               -- One probe each, never a join of two lists.
               (SELECT true FROM :schema.rotation WHERE rotation.track = v_track AND rotation.group_name = came.group_name) IS TRUE AS is_listed
          FROM came
         GROUP BY came.group_name
      ), cand AS MATERIALIZED (
        SELECT listed.group_name, listed.turn, listed.credit, true AS is_listed, NULL::tid[] AS places FROM listed
         UNION ALL
        SELECT news.group_name, news.turn, NULL, false, news.places FROM news WHERE NOT news.is_listed
         ORDER BY 2
      ), groups_in_turn AS MATERIALIZED (
        SELECT greatest(1, count(*)) AS number FROM cand
      )
      SELECT NULL::text AS group_name, NULL::bigint AS turn, NULL::integer AS credit, false AS is_listed,
             ARRAY(SELECT unnest(news.places) FROM news WHERE news.is_listed) AS places,
             NULL::float8 AS not_before, NULL::float8 AS empty_at, NULL::float8 AS rate_limit, NULL::float8 AS rate_per_ms,
             NULL::float8 AS rate_burst, NULL::boolean AS rate_by_cost, NULL::integer AS length, NULL::integer AS free,
             NULL::tid[] AS heads, NULL::uuid[] AS ids, NULL::float8[] AS costs,
             (SELECT count(*)::integer FROM came) AS seen, (SELECT count(*)::integer FROM listed) AS listed
       UNION ALL
      SELECT cand.group_name, cand.turn, cand.credit, cand.is_listed, cand.places, own.not_before,
             coalesce(own.empty_at, '-Infinity'), bound.rate_limit, bound.rate_per_ms, bound.rate_burst, bound.rate_by_cost,
             room.length, room.free, head.places, head.ids, head.costs, head.seen, 0
        FROM cand
        LEFT JOIN LATERAL (
          SELECT groups.* FROM :schema.groups
           WHERE groups.queue = p_queue AND groups.group_name = cand.group_name AND cand.group_name <> ''
          OFFSET 0
        ) AS own ON true
       CROSS JOIN LATERAL (
          SELECT CASE WHEN cand.group_name = '' THEN NULL WHEN f.ordered THEN 1 ELSE coalesce(own.concurrency, f.concurrency) END AS concurrency,
                 CASE WHEN cand.group_name <> '' THEN coalesce(own.rate_limit, f.rate_limit) END AS rate_limit,
                 CASE WHEN own.rate_limit IS NULL THEN f.rate_per_ms ELSE own.rate_per_ms END AS rate_per_ms,
                 CASE WHEN own.rate_limit IS NULL THEN f.rate_burst ELSE own.rate_burst END AS rate_burst,
                 CASE WHEN own.rate_limit IS NULL THEN f.rate_by_cost ELSE own.rate_by_cost END AS rate_by_cost
          OFFSET 0
       ) AS bound
       CROSS JOIN LATERAL (
          SELECT coalesce(cand.credit,
                          coalesce(own.weight, 1) * greatest(1, ceil(v_need::float8 / (SELECT number FROM groups_in_turn))::integer,
                                                             least(4, coalesce(bound.concurrency, 1)))) AS length,${FREE} AS free
          OFFSET 0
       ) AS room
        LEFT JOIN LATERAL (${HEADS}        ) AS head ON true`
