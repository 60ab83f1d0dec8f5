// Rates and costs in SQL, as the claim and settlements count with them. ◄── migrations/0011_flow.ts

// A bucket as it counts now: standing of core/flow/rate.ts. No bucket owes more than a day, but one that was drawn from by a clock ahead.
const STANDING = "CASE WHEN empty_at - burst * per_ms / per_time > now_ms + 90000000 THEN '-Infinity' ELSE empty_at END"

export const RATE_FUNCTIONS: string = `
-- How long until a start of this price may go, in whole milliseconds: waitMsFor of core/flow/rate.ts.
CREATE FUNCTION :schema.rate_wait_ms(per_time float8, per_ms float8, burst float8, empty_at float8, price float8, now_ms float8)
  RETURNS float8
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN due.ms <= 0.02 THEN 0 ELSE greatest(1, ceil(due.ms - 0.02)) END
    FROM (SELECT (least(price, burst)
                  - least(burst, (now_ms - ${STANDING})
                                 * per_time / per_ms)) * per_ms / per_time AS ms) AS due
$$;

-- The bucket after this much was taken: draw of core/flow/rate.ts.
CREATE FUNCTION :schema.rate_draw(per_time float8, per_ms float8, burst float8, empty_at float8, price float8, now_ms float8)
  RETURNS float8
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT least(CASE WHEN price > 0 THEN greatest(bucket.stands, now_ms - burst * per_ms / per_time) ELSE bucket.stands END
               + price * per_ms / per_time,
               now_ms + burst * per_ms / per_time + 86400000)
    FROM (SELECT ${STANDING} AS stands) AS bucket
$$;

-- What a job's start takes from rates that count cost. Anything may stand in the column: what makes no sense is 1.
CREATE FUNCTION :schema.cost_of(options json) RETURNS float8
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
  SELECT CASE WHEN options #>> '{flow,cost}' ~ '^[0-9]{1,10}$' THEN (options #>> '{flow,cost}')::float8 ELSE 1 END
$$;

REVOKE EXECUTE ON FUNCTION :schema.rate_wait_ms(float8, float8, float8, float8, float8, float8) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.rate_draw(float8, float8, float8, float8, float8, float8) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION :schema.cost_of(json) FROM PUBLIC;
`
