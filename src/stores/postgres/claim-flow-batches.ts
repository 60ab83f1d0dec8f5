// What claim_flow has since version 18: a group of one job at a time gives several jobs in one turn to a worker that runs them together.
// Version 15 has none of it, and its text must stay as it was. ◄── claim-flow-function.ts

import { AGED } from './claim-flow-turns.js'

/** The parts of the function in which its versions differ. */
export interface ClaimFlowParts {
  readonly number: 25
  readonly parameters: string
  readonly parameterTypes: string
  readonly attributes: string
  readonly variables: string
  /** The column that says which jobs are of batches; in rows of jobs; in the last row. */
  readonly column: string
  readonly noBatches: string
  readonly batched: string
  /** Of the condition for groups of one job at a time to be taken in one step. */
  readonly unlessBatches: string
  /** Finds the batch of the group at hand, if there is one. */
  readonly findBatch: string
  /** Where a group stands whose next job has to wait for its rate. */
  readonly endOfRate: string
  /** Ends a batch that limits or the claim cut short. */
  readonly endBatch: string
  /** Keeps what was taken as a batch. */
  readonly keepBatch: string
}

// The first jobs of the group in its order, up to one that does not fit. Of jobs in other tracks none may come before it.
const OF_ORDERED = `
                    (SELECT fitting.place, fitting.id
                       FROM (SELECT few.*, bool_and(few.type = v_type AND few.crashes = 0)
                                             OVER (ORDER BY few.priority DESC, few.position ROWS UNBOUNDED PRECEDING) AS fits
                               FROM (SELECT held.ctid AS place, held.id, held.type, coalesce(held.crashes, 0) AS crashes, held.priority, held.position
                                       FROM :schema.held
                                      WHERE held.track = v_track AND held.group_name = c.group_name AND f.ordered
                                      ORDER BY held.priority DESC, held.position
                                      LIMIT v_most) AS few) AS fitting
                      WHERE fitting.fits
                        AND (cardinality(v_all) = 1
                             OR NOT EXISTS (SELECT FROM :schema.held AS earlier
                                             WHERE earlier.track = ANY (v_all) AND earlier.track <> v_track
                                               AND earlier.group_name = c.group_name AND earlier.position < fitting.position))
                      ORDER BY fitting.priority DESC, fitting.position)`

// The first jobs of the type. A group with a million jobs of other types must not be read through.
const OF_TYPE = `
                    (SELECT near.place, near.id
                       FROM (SELECT held.ctid AS place, held.id, held.type, held.crashes
                               FROM :schema.held
                              WHERE held.track = v_track AND held.group_name = c.group_name AND NOT f.ordered AND f.aging_ms IS NULL
                              ORDER BY held.priority DESC, held.position
                              LIMIT 200 + v_max) AS near
                      WHERE near.type = v_type AND coalesce(near.crashes, 0) = 0
                      LIMIT v_most)`

const OF_AGED = `
                    (SELECT aged.place, aged.id
                       FROM ${AGED('held', 'held.track = v_track AND held.group_name = c.group_name', 'v_most', 'v_max', ' AND held.type = v_type AND coalesce(held.crashes, 0) = 0')} AS aged
                      WHERE NOT f.ordered AND f.aging_ms IS NOT NULL)`

/** Several jobs of a group of one job at a time, for a worker that runs them together. */
export const WITH_BATCHES: ClaimFlowParts = {
  number: 25,
  parameters: ', p_batch_types text[], p_batch_sizes integer[]',
  parameterTypes: ', text[], integer[]',
  // What migration 16 did to the versions before.
  attributes: ' SECURITY DEFINER',
  variables: `
  v_batches  boolean := coalesce(cardinality(p_batch_types), 0) > 0;
  v_is_batch boolean;                    -- what the group at hand gives is one batch
  v_type     text;                       -- of the jobs of a batch
  v_max      integer;                    -- how many jobs a batch may have
  v_most     integer;                    -- how many this one may have
  v_heads    tid[];
  v_head_ids uuid[];
  v_costs    float8[];
  v_batched  uuid[] := '{}';             -- the jobs that were taken in batches`,
  column: ', batched uuid[]',
  noBatches: ', NULL::uuid[]',
  batched: ', v_batched',
  unlessBatches: ' AND NOT v_batches',
  findBatch: `
            v_is_batch := false;
            IF v_batches AND c.free = 1 AND v_known > 0 AND c.group_name <> ''
               AND (f.ordered OR coalesce((SELECT groups.concurrency FROM :schema.groups
                                            WHERE groups.queue = p_queue AND groups.group_name = c.group_name), f.concurrency) = 1) THEN
              -- A job that was lost with its worker goes alone.
              SELECT first.type, least(asked.size, 5000), least(asked.size, v_amount - v_round) INTO v_type, v_max, v_most
                FROM :schema.held AS first
                JOIN unnest(p_batch_types, p_batch_sizes) AS asked (type, size) ON asked.type = first.type
               WHERE first.ctid = c.heads[1] AND coalesce(first.crashes, 0) = 0;
              IF v_most > 1 THEN
                SELECT array_agg(batch.place), array_agg(batch.id),
                       CASE WHEN c.costs IS NOT NULL
                            THEN array_agg((SELECT :schema.cost_of(jobs.options) FROM :schema.jobs WHERE jobs.id = batch.id)) END
                  INTO v_heads, v_head_ids, v_costs
                  FROM (${OF_ORDERED}
                     UNION ALL${OF_TYPE}
                     UNION ALL${OF_AGED}) AS batch;
                -- This look is newer than that at the group. One that begins with another job is left to the next turn.
                IF v_head_ids[1] = c.ids[1] THEN
                  v_is_batch := true;
                  v_known := cardinality(v_head_ids);
                  c.free := v_known;
                  c.length := v_known;
                  c.heads := v_heads;
                  c.ids := v_head_ids;
                  c.costs := v_costs;
                END IF;
              END IF;
            END IF;`,
  endOfRate: "CASE WHEN v_is_batch AND v_taken > 0 THEN 'off' ELSE 'nap' END",
  endBatch: `
              IF v_is_batch AND v_taken > 0 AND (v_closed > v_now_ms OR v_round = v_amount) THEN
                v_end := 'off';                                  -- some of it runs: the group is full
                EXIT;
              END IF;`,
  keepBatch: `
            IF v_is_batch AND v_taken > 1 THEN v_batched := v_batched || c.ids[1:v_taken]; END IF;`,
}
