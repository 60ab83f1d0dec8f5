// walk_held: goes through the held jobs of a queue whose settings were changed, a few at a time. It runs until it is through, after
// setQueue (queue-flow.ts), and by upkeep when the process that began it died (flow-net.ts).

export const WALK_HELD: string = `
-- A queue that becomes ordered places jobs in their order from then on, and its claims go by that order when those that waited already are
-- sorted. One that is no longer ordered goes by priority from then on; that of jobs that waited counts when the walk has come to them.
ALTER TABLE :schema.flows
  ADD COLUMN in_order      boolean NOT NULL DEFAULT false,  -- where jobs are placed; ordered says how they are claimed
  ADD COLUMN walk          text,                            -- 'sort', then 'offer'; null when it is over
  ADD COLUMN walk_track    integer,                         -- how far it is
  ADD COLUMN walk_group    text COLLATE "C",
  ADD COLUMN walk_priority smallint,
  ADD COLUMN walk_position bigint;
UPDATE :schema.flows SET in_order = true WHERE flows.ordered;

-- The next \`most\` jobs, or groups, under the lock of the queue. True when nothing is left. It runs with the owner's rights: a worker's upkeep
-- ends what an operator began.
CREATE FUNCTION :schema.walk_held(of_queue text, most integer) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  f          :schema.flows;
  c          record;
  v_track    integer;
  v_group    text;
  v_priority smallint;
  v_position bigint;
  v_seen     integer := 0;
BEGIN
  SELECT * INTO f FROM :schema.flows WHERE flows.queue = of_queue FOR NO KEY UPDATE;
  IF NOT FOUND OR f.walk IS NULL THEN RETURN true; END IF;

  IF f.walk = 'sort' THEN
    FOR v_track IN SELECT tracks.track FROM :schema.tracks
                    WHERE tracks.queue = of_queue AND tracks.track >= coalesce(f.walk_track, 0) ORDER BY tracks.track LOOP
      -- Jobs without a group have no order, so that each track begins behind them.
      IF v_track = f.walk_track THEN
        v_group := f.walk_group; v_priority := f.walk_priority; v_position := f.walk_position;
      ELSE
        v_group := ''; v_priority := -32768; v_position := 9223372036854775807;
      END IF;
      FOR c IN SELECT row.id, row.group_name, row.priority, row.position,
                      CASE WHEN f.in_order THEN 0::smallint ELSE own.priority END AS own_priority,
                      CASE WHEN f.in_order THEN own.position ELSE row.position END AS own_position
                 FROM ((SELECT held.id, held.group_name, held.priority, held.position FROM :schema.held
                         WHERE held.track = v_track AND held.group_name = v_group AND held.priority = v_priority AND held.position > v_position
                         ORDER BY held.position LIMIT most - v_seen)
                       UNION ALL
                       (SELECT held.id, held.group_name, held.priority, held.position FROM :schema.held
                         WHERE held.track = v_track AND held.group_name = v_group AND held.priority < v_priority
                         ORDER BY held.priority DESC, held.position LIMIT most - v_seen)
                       UNION ALL
                       (SELECT held.id, held.group_name, held.priority, held.position FROM :schema.held
                         WHERE held.track = v_track AND held.group_name > v_group
                         ORDER BY held.group_name, held.priority DESC, held.position LIMIT most - v_seen)
                       LIMIT most - v_seen) AS row
                 LEFT JOIN LATERAL (
                   SELECT coalesce((SELECT places.position FROM :schema.places WHERE places.id = row.id), jobs.position) AS position, jobs.priority
                     FROM :schema.jobs
                    WHERE jobs.id = row.id
                   OFFSET 0
                 ) AS own ON true LOOP
        IF c.own_priority <> c.priority OR c.own_position <> c.position THEN
          UPDATE :schema.held SET priority = c.own_priority, position = c.own_position WHERE held.id = c.id;
        END IF;
        v_seen := v_seen + 1;
        v_group := c.group_name; v_priority := c.priority; v_position := c.position;
      END LOOP;
      IF v_seen >= most THEN
        UPDATE :schema.flows
           SET walk_track = v_track, walk_group = v_group, walk_priority = v_priority, walk_position = v_position
         WHERE flows.queue = of_queue;
        RETURN false;
      END IF;
    END LOOP;
    UPDATE :schema.flows SET ordered = flows.in_order, walk = 'offer', walk_track = NULL, walk_group = NULL WHERE flows.queue = of_queue;
    f.walk_track := NULL;
  END IF;

  -- Every group that has held jobs is looked at by a claim: something may have changed for it.
  FOR v_track IN SELECT tracks.track FROM :schema.tracks
                  WHERE tracks.queue = of_queue AND tracks.track >= coalesce(f.walk_track, 0) ORDER BY tracks.track LOOP
    v_group := CASE WHEN v_track = f.walk_track THEN f.walk_group END;
    LOOP
      IF v_seen >= most THEN
        UPDATE :schema.flows SET walk_track = v_track, walk_group = v_group WHERE flows.queue = of_queue;
        RETURN false;
      END IF;
      IF v_group IS NULL THEN
        SELECT held.group_name INTO v_group FROM :schema.held WHERE held.track = v_track ORDER BY held.group_name LIMIT 1;
      ELSE
        SELECT held.group_name INTO v_group FROM :schema.held
         WHERE held.track = v_track AND held.group_name > v_group ORDER BY held.group_name LIMIT 1;
      END IF;
      EXIT WHEN NOT FOUND;
      IF NOT EXISTS (SELECT FROM :schema.rotation WHERE rotation.track = v_track AND rotation.group_name = v_group) THEN
        INSERT INTO :schema.arrivals (turn, track, group_name) VALUES (nextval(':schema.positions') * 65536, v_track, v_group);
      END IF;
      v_seen := v_seen + 1;
    END LOOP;
  END LOOP;
  UPDATE :schema.flows SET walk = NULL, walk_track = NULL, walk_group = NULL WHERE flows.queue = of_queue;
  RETURN true;
END
$$;

REVOKE EXECUTE ON FUNCTION :schema.walk_held(text, integer) FROM PUBLIC;
`
