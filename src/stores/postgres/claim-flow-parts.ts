// Statements of claim_flow that take many groups, or many plain jobs, in one step. ◄── claim-flow-function.ts

import { AGED } from './claim-flow-turns.js'

/**
 * One round over groups that run one job at a time and have no settings of their own. Each gives its first job if none of it runs. A group
 * that gave a job is full, and one without a job, or with one that runs, waits for an event: none of them needs a turn. A few more groups
 * are looked at than jobs may go, because the caller wants to know whether more could.
 */
export const TAKE_ONE_EACH: string = `
          WITH listed AS MATERIALIZED (
            SELECT rotation.group_name, rotation.turn
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
            SELECT came.group_name, min(came.turn) AS turn,
                   -- One probe each, never a join of two lists; none while no group has a turn.
                   EXISTS (SELECT FROM listed)
                   AND EXISTS (SELECT FROM :schema.rotation WHERE rotation.track = v_track AND rotation.group_name = came.group_name) AS is_listed
              FROM came
             GROUP BY came.group_name
          ), cand AS MATERIALIZED (
            SELECT listed.group_name, listed.turn, true AS is_listed FROM listed
             UNION ALL
            SELECT news.group_name, news.turn, false FROM news WHERE NOT news.is_listed
             ORDER BY 2
             LIMIT v_reach
          ), looked AS MATERIALIZED (
            -- The first job of a group is looked for only if none of its runs: that reads a page of the index with all jobs of the group on it.
            SELECT cand.group_name, cand.is_listed, head.place, head.id, head.is_known,
                   CASE WHEN head.place IS NULL THEN false
                        WHEN NOT f.ordered THEN true
                        WHEN f.waits_for_retry
                             AND EXISTS (SELECT FROM :schema.scheduled
                                          WHERE scheduled.track = ANY (v_all) AND scheduled.track <> 0
                                            AND scheduled.fence IS NOT NULL AND scheduled.group_name = cand.group_name) THEN false
                        WHEN cardinality(v_all) = 1 THEN true
                        ELSE NOT EXISTS (SELECT FROM :schema.held AS earlier
                                          WHERE earlier.track = ANY (v_all) AND earlier.track <> v_track
                                            AND earlier.group_name = cand.group_name AND earlier.position < head.position)
                    END AS may_go
              FROM (SELECT cand.*,
                           EXISTS (SELECT FROM :schema.running
                                    WHERE running.track = ANY (v_all) AND running.track <> 0 AND running.group_name = cand.group_name) AS is_busy
                      FROM cand
                    OFFSET 0) AS cand
              LEFT JOIN LATERAL (
                SELECT held.ctid AS place, held.id, held.position, p_types IS NULL OR held.type = ANY (p_types) AS is_known
                  FROM :schema.held
                 WHERE held.track = v_track AND held.group_name = cand.group_name AND NOT cand.is_busy
                 ORDER BY held.priority DESC, held.position
                 LIMIT 1
              ) AS head ON true
          ), over AS MATERIALIZED (
            SELECT looked.group_name FROM looked WHERE looked.may_go OFFSET v_allowed
          )
          SELECT ARRAY(SELECT looked.place FROM looked WHERE looked.may_go LIMIT v_allowed),
                 ARRAY(SELECT looked.id FROM looked WHERE looked.may_go LIMIT v_allowed),
                 -- Events of groups that were looked at, but for those that could go as well, and of groups that have a turn.
                 ARRAY(SELECT came.place
                         FROM came
                        WHERE CASE WHEN (SELECT count(*) FROM cand) < v_reach OR (came.group_name IN (SELECT cand.group_name FROM cand)) IS TRUE
                                   THEN (came.group_name IN (SELECT over.group_name FROM over)) IS NOT TRUE
                                   ELSE (came.group_name IN (SELECT news.group_name FROM news WHERE news.is_listed)) IS TRUE END),
                 ARRAY(SELECT looked.group_name FROM looked
                        WHERE looked.is_listed AND (looked.group_name IN (SELECT over.group_name FROM over)) IS NOT TRUE),
                 EXISTS (SELECT FROM over),
                 -- Jobs of types that the worker does not know, or without a group: these take the loop.
                 EXISTS (SELECT FROM looked WHERE looked.may_go AND NOT looked.is_known OR looked.group_name = ''),
                 (SELECT count(*) FROM came) = v_window OR (SELECT count(*) FROM listed) > v_amount
                   OR (SELECT count(*) FROM cand) = v_reach
            INTO v_places, v_ids, v_gone, v_off, v_is_over, v_is_mixed, v_is_full;`

/** The first plain jobs of the queue, one more than may go: that tells whether more wait. */
export const FIRST_PLAIN: string = `
        IF f.aging_ms IS NULL THEN
          SELECT array_agg(first.place), array_agg(first.id) INTO v_places, v_ids
            FROM (SELECT ready.ctid AS place, ready.id
                    FROM :schema.ready
                   WHERE ready.queue = p_queue AND (p_types IS NULL OR ready.type = ANY (p_types))
                   ORDER BY ready.priority DESC, ready.position
                   LIMIT v_allowed + 1) AS first;
        ELSE
          SELECT array_agg(aged.place), array_agg(aged.id) INTO v_places, v_ids
            FROM ${AGED('ready', 'ready.queue = p_queue', 'v_allowed + 1', 'v_share')} AS aged;
        END IF;`

/** How many jobs of price 1 the limits of the track at hand let start, in v_cap. Plain jobs have that price; of others it is known for all at
 *  once only where no rate counts cost. */
export const COUNT_STARTS: string = `
          v_cap := 1000000;
          FOREACH v_i IN ARRAY v_mine LOOP
            v_cap := least(v_cap, v_rooms[v_i]);
            IF v_untils[v_i] > v_now_ms THEN
              v_cap := 0;
            ELSIF v_rates[v_i] IS NOT NULL THEN
              v_cap := least(v_cap, floor(least(v_bursts[v_i], (v_now_ms - v_empties[v_i]) * v_rates[v_i] / v_pers[v_i])
                                          + 0.02 * v_rates[v_i] / v_pers[v_i]));
            END IF;
          END LOOP;
          v_cap := greatest(v_cap, 0);`

/** Whether a job of this price may start beside its group: v_closed is the time until which not, Infinity for an event. */
export const lookAtLimits = (cost: string): string => `
          v_closed := 0;
          FOREACH v_i IN ARRAY v_mine LOOP
            IF v_rooms[v_i] <= 0 THEN
              v_closed := 'Infinity';
              EXIT;
            END IF;
            v_closed := greatest(v_closed, v_untils[v_i]);
            IF v_rates[v_i] IS NOT NULL THEN
              v_wait := :schema.rate_wait_ms(v_rates[v_i], v_pers[v_i], v_bursts[v_i], v_empties[v_i],
                                             CASE WHEN v_prices[v_i] THEN ${cost} ELSE 1 END, v_now_ms);
              IF v_wait > 0 THEN v_closed := greatest(v_closed, v_now_ms + v_wait); END IF;
            END IF;
          END LOOP;`

/** Takes the slots and tokens of this many jobs, and of what they cost together. */
export const start = (jobs: string, cost: string): string => `
          FOREACH v_i IN ARRAY v_mine LOOP
            v_rooms[v_i] := v_rooms[v_i] - ${jobs};
            v_used[v_i] := true;
            IF v_rates[v_i] IS NOT NULL THEN
              v_empties[v_i] := :schema.rate_draw(v_rates[v_i], v_pers[v_i], v_bursts[v_i], v_empties[v_i],
                                                  CASE WHEN v_prices[v_i] THEN ${cost} ELSE ${jobs} END, v_now_ms);
            END IF;
          END LOOP;`

interface Move {
  readonly from: 'held' | 'ready'
  readonly track: string
  readonly group: string
  readonly priority: string
  /** Columns behind those of version 15. */
  readonly noBatches: string
}

/** Moves what was decided on from where it waits to running, and returns it. */
export const move = ({ from, track, group, priority, noBatches }: Move): string => `
          RETURN QUERY
          WITH removed AS (
            DELETE FROM :schema.${from} AS gone WHERE gone.ctid = ANY (v_places)
            RETURNING gone.id, gone.since, gone.fence, gone.priority, gone.attempt, gone.crashes, ${group} AS group_name, gone.type
          ), claimed AS MATERIALIZED (
            SELECT removed.id, removed.since, removed.priority, removed.group_name, removed.type,
                   greatest(coalesce(removed.fence, 0) + 1, round(v_now_ms)::bigint) AS fence,
                   (coalesce(removed.attempt, 0) + 1)::smallint AS attempt, coalesce(removed.crashes, 0)::smallint AS crashes
              FROM removed
          ), leased AS (
            INSERT INTO :schema.running (id, fence, claimed_at, leased_until, priority, attempt, crashes, begun, cancel_requested, queue,
                                         type, worker, track, group_name)
            SELECT claimed.id, claimed.fence, v_now, v_now + p_lease_ms * interval '1 millisecond', ${priority},
                   claimed.attempt, claimed.crashes, false, false, p_queue, claimed.type, p_worker, ${track}, claimed.group_name
              FROM claimed
          )
          SELECT claimed.id, claimed.fence, claimed.type, facts.priority, claimed.attempt, claimed.crashes, facts.payload,
                 facts.version, round(date_part('epoch', facts.created_at) * 1000), facts.options, array_to_json(facts.tags),
                 round(date_part('epoch', v_now - claimed.since) * 1000), v_now_ms, NULL::boolean, NULL::float8, NULL::uuid[], NULL::json,
                 NULL::text[], NULL::json${noBatches}
            FROM claimed
            LEFT JOIN LATERAL (                                     -- without facts it is a stray: strays.ts
              SELECT jobs.priority, jobs.payload, jobs.version, jobs.created_at, jobs.options, jobs.tags
                FROM :schema.jobs WHERE jobs.id = claimed.id
              OFFSET 0
            ) AS facts ON true;`
