// The place of a job in its group, and the events that have a claim look at groups.

/** A subquery over a row of a job that goes to held: its first place, and whether its group is ordered, so that it goes back there.
 *  `in_order` of flows is true before `ordered` is: see walk-function.ts. */
export const HELD_PLACE = (row: string, column: 'ordered' | 'in_order' = 'in_order'): string => `(
     SELECT coalesce((SELECT places.position FROM :schema.places WHERE places.id = ${row}.id), jobs.position) AS position,
            ${row}.group_name <> '' AND (SELECT flows.${column} FROM :schema.flows WHERE flows.queue = ${row}.queue) IS TRUE AS is_ordered
       FROM :schema.jobs
      WHERE jobs.id = ${row}.id
     OFFSET 0
   )`

/** The insert of jobs that go to held: rows with the columns of held, and `position` for groups that are not ordered. */
export const intoHeld = (rows: string, where: string): string => `
  INSERT INTO :schema.held (id, position, since, fence, track, priority, attempt, crashes, queue, group_name, type)
  SELECT ${rows}.id, CASE WHEN place.is_ordered THEN place.position ELSE ${rows}.position END, ${rows}.now, ${rows}.fence, ${rows}.track,
         CASE WHEN place.is_ordered THEN 0 ELSE ${rows}.priority END, ${rows}.attempt, ${rows}.crashes, ${rows}.queue, ${rows}.group_name,
         ${rows}.type
    FROM ${rows}
   CROSS JOIN LATERAL ${HELD_PLACE(rows)} AS place
   WHERE ${where} AND ${rows}.track > 0`

/** The insert of events for the groups of these rows, in every track of their queue: a slot of a group is free for all of them. It is
 *  always written, also when nobody is seen to wait: a job that is being enqueued cannot be seen. `added` is true of rows that came to
 *  held; those without a group free nothing for others when they leave. */
export const intoArrivals = (rows: string, turn: string, added = 'false'): string => `
  INSERT INTO :schema.arrivals (turn, track, group_name)
  SELECT DISTINCT ${turn}, tracks.track, touched.group_name
    FROM (SELECT DISTINCT ${rows}.queue, ${rows}.track, ${rows}.group_name
            FROM ${rows}
           WHERE ${rows}.track > 0 AND (${rows}.group_name <> '' OR ${added})) AS touched
   CROSS JOIN LATERAL (
     SELECT tracks.track FROM :schema.tracks
      WHERE tracks.queue = touched.queue AND (touched.group_name <> '' OR tracks.track = touched.track)
     OFFSET 0
   ) AS tracks`

/** The queues to wake when jobs of these rows free their slots: their own, and those with jobs that wait for one of their limits. An
 *  expression with a JSON array, null when there is none. If `isSure`, nobody looks whether a job waits. */
export const queuesToWake = (rows: string, isSure = 'false'): string => `
       (SELECT json_agg(DISTINCT waiting.queue)
          FROM (SELECT DISTINCT ${rows}.queue, ${rows}.track FROM ${rows} WHERE ${rows}.track <> 0) AS freed
         CROSS JOIN LATERAL (
           SELECT freed.queue
            WHERE ${isSure} OR EXISTS (SELECT FROM :schema.ready WHERE ready.queue = freed.queue)
            UNION ALL
           SELECT tracks.queue
             FROM (SELECT mine.track FROM :schema.tracks AS mine WHERE mine.queue = freed.queue
                    UNION
                   SELECT unnest(limits.tracks)
                     FROM (SELECT unnest(tracks.limits) AS name FROM :schema.tracks WHERE tracks.track = freed.track OFFSET 0) AS named
                    CROSS JOIN LATERAL (SELECT limits.tracks FROM :schema.limits WHERE limits.name = named.name OFFSET 0) AS limits
                  ) AS others
            CROSS JOIN LATERAL (SELECT tracks.queue FROM :schema.tracks WHERE tracks.track = others.track OFFSET 0) AS tracks
            WHERE ${isSure} OR EXISTS (SELECT FROM :schema.held WHERE held.track = others.track)
         ) AS waiting)::text`
