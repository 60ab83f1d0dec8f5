// claim_flow, the claim of a queue that has flow control. The same rules as stores/memory/flow-claim.ts.
//
// It locks the queue's row first; every look after that has a newer snapshot. Then each track in turn:
//
//   plain jobs of the queue       one step: as many of the first ones as the queue's limit lets start
//   groups of one job at a time   one step for a round of groups (TAKE_ONE_EACH), unless groups have settings of their own
//   any other groups              a loop over groups, read lazily: how many each gets, and where it stands afterwards
//
// What was decided is written by a few statements at the end of a round. Nothing is counted between claims: what runs is read from the
// index of running, up to the concurrency asked for. ◄── claim-flow.ts

import { type ClaimFlowParts, WITH_BATCHES } from './claim-flow-batches.js'
import { COUNT_STARTS, FIRST_PLAIN, lookAtLimits, move, start, TAKE_ONE_EACH } from './claim-flow-parts.js'
import { IN_TURN } from './claim-flow-turns.js'

const NO_JOB = `SELECT NULL::uuid, NULL::bigint, NULL::text, NULL::smallint, NULL::smallint, NULL::smallint, NULL::json, NULL::smallint,
                        NULL::float8, NULL::json, NULL::json, NULL::float8, v_now_ms`

/** Reads what holds for the queue: its tracks and limits, each limit locked, and what they leave. */
const lookAtQueue = ({ unlessBatches, batched }: ClaimFlowParts): string => `
  -- Tests give a time. Who may not set limits cannot: it would take the tokens of tomorrow, and leave a bucket that is empty for years.
  IF p_now IS NOT NULL AND NOT has_table_privilege(session_user, ':schema.limits', 'INSERT') THEN p_now := NULL; END IF;
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'a claim of a queue with flow control needs READ COMMITTED: its looks must be newer than its lock';
  END IF;
  -- Everything below is read by snapshots taken after this lock. That is what makes it exact.
  SELECT * INTO f FROM :schema.flows WHERE flows.queue = p_queue FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  SELECT queues.paused, queues.settings INTO v_paused, v_settings FROM :schema.queues WHERE queues.name = p_queue;
  FOR c IN SELECT tracks.track, tracks.limits FROM :schema.tracks WHERE tracks.queue = p_queue ORDER BY tracks.track LOOP
    v_all := v_all || c.track;
    v_names := v_names || c.limits;
  END LOOP;
  IF v_paused THEN
    v_now_ms := date_part('epoch', coalesce(p_now, clock_timestamp())) * 1000;
    RETURN QUERY ${NO_JOB}, false, NULL::float8, v_took, v_settings, v_probed, NULL::json${batched};
    RETURN;
  END IF;

  FOR lim IN SELECT limits.* FROM :schema.limits
              WHERE limits.name = ANY (v_names || ('queue:' || p_queue))
              ORDER BY limits.name
                FOR NO KEY UPDATE LOOP
    v_n := NULL;
    IF lim.forced IS NULL AND lim.position <> 'closed' THEN v_n := lim.probes; END IF;
    v_n := least(v_n, lim.concurrency);
    IF v_n IS NOT NULL THEN
      v_n := v_n - (SELECT count(*)::integer
                      FROM (SELECT FROM :schema.running WHERE running.track = ANY (lim.tracks) AND running.track <> 0 LIMIT v_n) AS busy);
    END IF;
    v_limits := v_limits || lim;
    v_rooms := v_rooms || CASE WHEN lim.forced = 'open' THEN 0 ELSE v_n END;
    v_untils := v_untils || greatest(lim.not_before, CASE WHEN lim.forced IS NULL AND lim.position = 'open' THEN lim.probe_at END);
    v_rates := v_rates || lim.rate_limit;
    v_pers := v_pers || lim.rate_per_ms;
    v_bursts := v_bursts || lim.rate_burst;
    v_prices := v_prices || lim.rate_by_cost;
    v_empties := v_empties || lim.empty_at;
    v_used := v_used || false;
    v_by_cost := v_by_cost OR lim.rate_limit IS NOT NULL AND lim.rate_by_cost;
  END LOOP;
  -- The time after the locks: a claim that waited for another must not be before it.
  v_now := coalesce(p_now, clock_timestamp());
  v_now_ms := date_part('epoch', v_now) * 1000;

  v_left := p_amount;
  FOR v_i IN 1..cardinality(v_limits) LOOP
    lim := v_limits[v_i];
    -- Drawn from by a clock that was ahead: it begins anew (rate-functions.ts).
    IF lim.empty_at - lim.rate_burst * lim.rate_per_ms / lim.rate_limit > v_now_ms + 90000000 THEN v_empties[v_i] := '-Infinity'; END IF;
    IF lim.name = 'queue:' || p_queue THEN
      IF v_rooms[v_i] IS NOT NULL THEN v_left := least(v_left, greatest(0, v_rooms[v_i])); END IF;
      IF lim.rate_limit IS NOT NULL AND NOT lim.rate_by_cost THEN
        v_left := least(v_left, greatest(0, floor(least(lim.rate_burst, (v_now_ms - v_empties[v_i]) * lim.rate_limit / lim.rate_per_ms)
                                                  + 0.02 * lim.rate_limit / lim.rate_per_ms))::integer);
      END IF;
    END IF;
  END LOOP;

  v_wanted := least(v_left, p_amount - p_ahead);
  v_turns := v_all;
  IF EXISTS (SELECT FROM :schema.ready WHERE ready.queue = p_queue) THEN v_turns := v_turns || 0; END IF;
  IF cardinality(v_turns) > 1 THEN
    UPDATE :schema.flows SET turn = flows.turn + 1 WHERE flows.queue = p_queue;
    v_n := (f.turn % cardinality(v_turns))::integer;
    v_turns := v_turns[v_n + 1:] || v_turns[:v_n];
  END IF;
  -- Groups whose time has come stand behind the others.
  IF EXISTS (SELECT FROM :schema.naps WHERE naps.track = ANY (v_all) AND naps.until <= v_now_ms) THEN
    WITH due AS (
      DELETE FROM :schema.naps
       WHERE naps.ctid = ANY (ARRAY(SELECT late.ctid FROM :schema.naps AS late
                                     WHERE late.track = ANY (v_all) AND late.until <= v_now_ms ORDER BY late.until LIMIT 1000))
      RETURNING naps.track, naps.group_name
    )
    INSERT INTO :schema.arrivals (turn, track, group_name)
    SELECT nextval(':schema.positions') * 65536, due.track, due.group_name FROM due;
  END IF;
  v_is_one := (f.ordered OR f.concurrency = 1) AND f.rate_limit IS NULL AND f.aging_ms IS NULL AND NOT v_by_cost
              AND NOT EXISTS (SELECT FROM :schema.groups WHERE groups.queue = p_queue)${unlessBatches};`

/** The plain jobs of the queue. */
const plainJobs = ({ noBatches }: ClaimFlowParts): string => `
      IF v_track = 0 THEN${COUNT_STARTS}
        v_allowed := least(v_share, v_cap);${FIRST_PLAIN}
        v_n := least(coalesce(cardinality(v_places), 0), v_allowed);
        v_is_over := coalesce(cardinality(v_places), 0) > v_n;
        IF v_n > 0 THEN
          v_places := v_places[1:v_n];
          v_took := v_took || v_ids[1:v_n];
          v_left := v_left - v_n;
          v_wanted := v_wanted - v_n;${start('v_n', 'v_n')}${move({ from: 'ready', track: '- f.number', group: "''", priority: 'claimed.priority', noBatches })}
        END IF;
        IF v_is_over THEN${lookAtLimits('1')}
          IF v_closed > v_now_ms THEN
            v_soonest := least(v_soonest, v_closed);
          ELSIF v_left = 0 THEN
            v_more := true;
          END IF;
        END IF;
        CONTINUE;
      END IF;`

/** One round of groups of one job at a time. */
const ROUND_OF_ONE = `${COUNT_STARTS}
          v_allowed := least(v_amount, v_cap);${TAKE_ONE_EACH}
          IF v_is_mixed THEN
            v_is_one := false;
            CONTINUE;
          END IF;
          v_round := cardinality(v_places);
          v_took := v_took || v_ids;
          IF v_round > 0 THEN${start('v_round', 'v_round')}
          END IF;
          IF v_is_over THEN${lookAtLimits('1')}
            IF v_closed > v_now_ms THEN
              v_soonest := least(v_soonest, v_closed);
              v_is_shut := true;
            ELSIF v_round = v_amount THEN
              v_more := v_left = v_round;
            END IF;
          END IF;`

/** One round of any groups. */
const roundOfAny = ({ findBatch, endOfRate, endBatch, keepBatch }: ClaimFlowParts): string => `${COUNT_STARTS}
          FOR c IN ${IN_TURN} LOOP
            IF c.group_name IS NULL THEN
              v_gone := c.places;
              v_is_full := c.seen = v_window OR c.listed > v_amount;
              CONTINUE;
            END IF;
            v_known := coalesce(cardinality(c.heads), 0);
            v_taken := 0;
            v_bucket := c.empty_at;${findBatch}
            IF c.rate_limit IS NULL AND c.costs IS NULL AND (c.not_before > v_now_ms) IS NOT TRUE THEN
              -- As many as surely may go in one step. What the next one waits for is found out below.
              v_taken := greatest(0, least(c.free, v_known, c.length, v_amount - v_round, v_cap));
              IF v_taken > 0 THEN
                v_cap := v_cap - v_taken;
                v_round := v_round + v_taken;
                v_places := v_places || c.heads[1:v_taken];
                v_took := v_took || c.ids[1:v_taken];${start('v_taken', 'v_taken')}
              END IF;
            END IF;
            LOOP
              v_price := 1;
              IF c.costs IS NOT NULL AND v_taken < v_known THEN v_price := c.costs[v_taken + 1]; END IF;
              v_wait := 0;
              IF c.rate_limit IS NOT NULL AND v_taken < v_known THEN
                v_wait := :schema.rate_wait_ms(c.rate_limit, c.rate_per_ms, c.rate_burst, v_bucket,
                                               CASE WHEN c.rate_by_cost THEN v_price ELSE 1 END, v_now_ms);
              END IF;
              IF c.seen > 0 AND c.not_before > v_now_ms THEN
                v_end := 'nap';
                v_wait := c.not_before - v_now_ms;
                EXIT;
              ELSIF v_taken >= c.free THEN
                v_end := 'off';                                  -- full, or paused: the next event brings it back
                EXIT;
              ELSIF v_taken >= v_known THEN
                v_end := CASE WHEN c.seen > v_known THEN 'last' ELSE 'off' END;
                EXIT;
              ELSIF v_wait > 0 THEN
                v_end := ${endOfRate};
                EXIT;
              ELSIF v_taken = c.length THEN
                v_end := 'last';
                v_is_full := true;                               -- it has more, which only another round can look at
                EXIT;
              END IF;${lookAtLimits('v_price')}${endBatch}
              IF v_closed > v_now_ms THEN
                v_soonest := least(v_soonest, v_closed);
                v_is_shut := true;
              ELSIF v_round = v_amount THEN
                v_more := v_left = v_round;
              END IF;
              IF v_closed > v_now_ms OR v_round = v_amount THEN
                -- The claim ends within its turn: it keeps its place and the rest of the turn. One that was not reached stays as it is.
                v_end := CASE WHEN v_taken = 0 THEN 'untouched' ELSE 'kept' END;
                EXIT;
              END IF;${start('1', 'v_price')}
              IF c.rate_limit IS NOT NULL THEN
                v_bucket := :schema.rate_draw(c.rate_limit, c.rate_per_ms, c.rate_burst, v_bucket,
                                              CASE WHEN c.rate_by_cost THEN v_price ELSE 1 END, v_now_ms);
              END IF;
              v_cap := v_cap - 1;
              v_taken := v_taken + 1;
              v_round := v_round + 1;
              v_places := v_places || c.heads[v_taken];
              v_took := v_took || c.ids[v_taken];
            END LOOP;${keepBatch}
            IF c.rate_limit IS NOT NULL AND v_taken > 0 THEN
              v_rated := v_rated || c.group_name;
              v_buckets := v_buckets || v_bucket;
            END IF;
            IF v_end = 'untouched' THEN EXIT; END IF;
            IF NOT c.is_listed THEN v_gone := v_gone || c.places; END IF;
            IF v_end = 'off' OR v_end = 'nap' THEN
              IF c.is_listed THEN v_off := v_off || c.group_name; END IF;
              IF v_end = 'nap' THEN
                v_nappers := v_nappers || c.group_name;
                v_naps := v_naps || (v_now_ms + least(v_wait, 86400000));      -- what naps longer is of a clock that was ahead: flow-net.ts
              END IF;
            ELSE
              IF v_base IS NULL THEN v_base := nextval(':schema.positions') * 65536; END IF;
              v_stay := v_stay || c.group_name;
              v_stay_at := v_stay_at || CASE WHEN v_end = 'kept' THEN c.turn ELSE v_base + cardinality(v_stay) END;
              v_credits := v_credits || CASE WHEN v_end = 'kept' THEN c.length - v_taken END;
            END IF;
            EXIT WHEN v_end = 'kept';
          END LOOP;`

// In an ordered group jobs wait without their priority.
const FIRST_PRIORITY = `CASE WHEN f.ordered THEN coalesce((SELECT jobs.priority FROM :schema.jobs WHERE jobs.id = claimed.id), claimed.priority)
                                  ELSE claimed.priority END`

/** Writes what a round has decided. */
const writeRound = ({ noBatches }: ClaimFlowParts): string => `
        IF cardinality(v_gone) > 0 THEN DELETE FROM :schema.arrivals WHERE arrivals.ctid = ANY (v_gone); END IF;
        IF cardinality(v_off) > 0 THEN
          DELETE FROM :schema.rotation WHERE rotation.track = v_track AND rotation.group_name = ANY (v_off);
        END IF;
        IF cardinality(v_stay) > 0 THEN
          INSERT INTO :schema.rotation (turn, track, credit, group_name)
          SELECT stay.turn, v_track, stay.credit, stay.name FROM unnest(v_stay, v_stay_at, v_credits) AS stay (name, turn, credit)
              ON CONFLICT ON CONSTRAINT rotation_one_for_each_group DO UPDATE SET turn = excluded.turn, credit = excluded.credit;
        END IF;
        IF cardinality(v_nappers) > 0 THEN
          INSERT INTO :schema.naps (until, track, group_name)
          SELECT nap.until, v_track, nap.name FROM unnest(v_nappers, v_naps) AS nap (name, until)
              ON CONFLICT ON CONSTRAINT naps_one_for_each_group DO UPDATE SET until = excluded.until;
        END IF;
        IF cardinality(v_rated) > 0 THEN
          INSERT INTO :schema.groups (queue, group_name, empty_at)
          SELECT p_queue, rated.name, rated.empty_at FROM unnest(v_rated, v_buckets) AS rated (name, empty_at)
              ON CONFLICT ON CONSTRAINT groups_one_for_each_name DO UPDATE SET empty_at = excluded.empty_at;
        END IF;
        IF v_round > 0 THEN${move({ from: 'held', track: 'v_track', group: 'gone.group_name', priority: FIRST_PRIORITY, noBatches })}
        END IF;`

/** Writes buckets and breakers, and answers what was left. */
const finish = ({ batched }: ClaimFlowParts): string => `
  FOR v_i IN 1..cardinality(v_limits) LOOP
    CONTINUE WHEN NOT v_used[v_i];
    lim := v_limits[v_i];
    IF lim.forced IS NULL AND lim.position = 'open' THEN
      -- The first start after the cool-down is a probe.
      v_probed := v_probed || lim.name;
      UPDATE :schema.limits SET position = 'half_open', since = v_now_ms, probe_at = NULL, successes = 0, empty_at = v_empties[v_i]
       WHERE limits.name = lim.name;
    ELSIF lim.rate_limit IS NOT NULL THEN
      UPDATE :schema.limits SET empty_at = v_empties[v_i] WHERE limits.name = lim.name;
    END IF;
  END LOOP;
  IF NOT v_more THEN
    v_soonest := least(v_soonest, (SELECT min(nap.until)
                                     FROM unnest(v_all) AS asked (track)
                                    CROSS JOIN LATERAL (SELECT naps.until FROM :schema.naps WHERE naps.track = asked.track
                                                         ORDER BY naps.until LIMIT 1) AS nap));
  END IF;
  RETURN QUERY ${NO_JOB}, v_more,
                        CASE WHEN NOT v_more AND v_soonest < 'Infinity' THEN greatest(1, ceil(v_soonest - v_now_ms)) END, v_took,
                        v_settings, v_probed,
                        -- Below which every event was consumed, for those who ask by floors.
                        CASE WHEN p_floors IS NOT NULL THEN (
                          SELECT json_agg(json_build_array(asked.track, coalesce(
                                   (SELECT arrivals.turn - 1 FROM :schema.arrivals
                                     WHERE arrivals.track = asked.track
                                       AND arrivals.turn > coalesce(p_floors[array_position(p_tracks, asked.track)], '-9223372036854775808')
                                     ORDER BY arrivals.turn LIMIT 1),
                                   nextval(':schema.positions') * 65536)::text))
                            FROM unnest(v_all) AS asked (track)) END${batched};`

const claimFlow = (parts: ClaimFlowParts): string => `
-- Its name has its version: processes of two versions may run side by side. The last row has no id and says what was left.
CREATE FUNCTION :schema.claim_flow_${parts.number}(p_now timestamptz, p_queue text, p_amount integer, p_types text[], p_lease_ms float8, p_worker text,
                                      p_tracks integer[], p_floors bigint[]${parts.parameters}, p_ahead integer)
  RETURNS TABLE (id uuid, fence bigint, type text, priority smallint, attempt smallint, crashes smallint, payload json, version smallint,
                 created_ms float8, options json, tags json, waited_ms float8, now_ms float8, more boolean, wait_ms float8, took uuid[],
                 settings json, probed text[], floors json${parts.column})
  LANGUAGE plpgsql${parts.attributes}
  SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  f          :schema.flows;
  lim        :schema.limits;
  c          record;
  v_paused   boolean;
  v_settings json;
  v_now      timestamptz;
  v_now_ms   float8;
  v_all      integer[] := '{}';          -- the queue's tracks
  v_names    text[] := '{}';             -- their limits
  v_turns    integer[];                  -- the tracks in the order of this claim, with 0 for its plain jobs
  v_limits   :schema.limits[] := '{}';   -- the limits of all tracks, and by their place:
  v_rooms    integer[] := '{}';          -- slots that are left
  v_untils   float8[] := '{}';           -- nothing starts before
  v_rates    float8[] := '{}';
  v_pers     float8[] := '{}';
  v_bursts   float8[] := '{}';
  v_prices   boolean[] := '{}';          -- whether the rate counts cost
  v_empties  float8[] := '{}';           -- buckets
  v_used     boolean[] := '{}';
  v_mine     integer[];                  -- places of the limits of the track at hand
  v_by_cost  boolean := false;
  v_is_one   boolean;                    -- each group runs one job at a time, and none has settings of its own
  v_is_mixed boolean;
  v_is_over  boolean;                    -- more could go than may
  v_cap      float8;                     -- what limits let start
  v_allowed  integer;
  v_floor    bigint;
  v_left     integer;                    -- what the claim may still take
  v_wanted   integer;                    -- of that, what is not claimed ahead
  v_need     integer;                    -- what is wanted of this track
  v_amount   integer;                    -- what this round may take
  v_share    integer;                    -- what this visit may take
  v_track    integer;
  v_window   integer;                    -- how many events are read
  v_reach    integer;                    -- how many groups of one job at a time are looked at
  v_taken    integer;                    -- of a group
  v_round    integer;                    -- taken in this round
  v_idle     integer;                    -- rounds that took nothing
  v_known    integer;
  v_price    float8;
  v_wait     float8;
  v_closed   float8;
  v_is_shut  boolean;                    -- a limit of the track lets nothing more start
  v_is_full  boolean;                    -- there may be groups beyond those that were read
  v_end      text;
  v_base     bigint;
  v_bucket   float8;
  v_places   tid[];
  v_ids      uuid[];
  v_took     uuid[] := '{}';
  v_gone     tid[];
  v_off      text[];
  v_stay     text[];
  v_stay_at  bigint[];
  v_credits  integer[];
  v_nappers  text[];
  v_naps     float8[];
  v_rated    text[];
  v_buckets  float8[];
  v_more     boolean := false;
  v_soonest  float8 := 'Infinity';
  v_probed   text[] := '{}';
  v_n        integer;${parts.variables}
  v_i        integer;
BEGIN${lookAtQueue(parts)}

  FOR v_pass IN 1..2 LOOP
    FOR v_place IN 1..cardinality(v_turns) LOOP
      -- What was wanted was taken. Beyond that every group has had its turn: what is left is to find out whether more could go.
      IF v_pass = 2 AND v_wanted <= 0 THEN v_left := 0; END IF;
      CONTINUE WHEN v_pass = 2 AND v_left = 0 AND v_more;
      v_track := v_turns[v_place];
      v_mine := '{}';
      v_is_shut := false;
      FOR v_i IN 1..cardinality(v_limits) LOOP
        lim := v_limits[v_i];
        CONTINUE WHEN NOT CASE WHEN v_track = 0 THEN lim.name = 'queue:' || p_queue ELSE v_track = ANY (lim.tracks) END;
        v_mine := v_mine || v_i;
        IF v_rooms[v_i] <= 0 THEN v_is_shut := true; END IF;
      END LOOP;
      -- A track without a free slot is not even looked at: its events wait.
      CONTINUE WHEN v_is_shut;
      v_i := CASE WHEN v_pass = 1 THEN cardinality(v_turns) - v_place + 1 ELSE 1 END;
      v_share := ceil(v_left::float8 / v_i)::integer;
      v_need := least(v_share, ceil(greatest(0, v_wanted)::float8 / v_i)::integer);
      CONTINUE WHEN v_pass = 1 AND v_share = 0;
${plainJobs(parts)}

      v_floor := coalesce(p_floors[array_position(p_tracks, v_track)], '-9223372036854775808');
      v_idle := 0;
      v_window := 8 + v_share;
      v_reach := 8 + v_share;
      LOOP
        v_amount := v_share;
        v_round := 0;
        v_places := '{}'; v_gone := '{}'; v_off := '{}'; v_stay := '{}'; v_stay_at := '{}'; v_credits := '{}'; v_nappers := '{}';
        v_naps := '{}'; v_rated := '{}'; v_buckets := '{}';
        v_base := NULL;
        v_is_full := false;
        IF v_is_one THEN${ROUND_OF_ONE}
        ELSE${roundOfAny(parts)}
        END IF;
${writeRound(parts)}
        v_left := v_left - v_round;
        v_wanted := v_wanted - v_round;
        v_need := v_need - v_round;
        -- What is claimed ahead is at most one turn of each group.
        v_share := CASE WHEN v_need <= 0 THEN 0 ELSE v_share - v_round END;
        v_need := greatest(v_need, 0);
        v_idle := CASE WHEN v_round > 0 THEN 0 ELSE v_idle + 1 END;
        EXIT WHEN v_is_shut OR v_share = 0 AND (v_left > 0 OR v_more OR v_pass = 1 OR NOT v_is_full);
        EXIT WHEN v_round = 0 AND NOT v_is_full;
        IF v_idle >= 8 THEN
          -- Thousands of events of groups that give nothing now: the next claim goes on.
          v_soonest := least(v_soonest, v_now_ms + 20);
          EXIT;
        END IF;
        v_window := CASE WHEN v_round > 0 THEN 16 + 4 * v_share ELSE least(4096, v_window * 4) END;
        v_reach := v_window;
      END LOOP;
    END LOOP;
  END LOOP;
${finish(parts)}
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.claim_flow_${parts.number}(timestamptz, text, integer, text[], float8, text, integer[], bigint[]${parts.parameterTypes}, integer) FROM PUBLIC;
`

/** The function that this version calls. */
export const CLAIM_FLOW_25: string = claimFlow(WITH_BATCHES)
