-- limit_set_quota: changes the quota for all callers. A name without a bucket gets a full one.
--
-- The bucket keeps its content, with the fraction rounded down and at most the new burst;
-- reservations keep their times.
--
-- Arguments   namespace, retention in µs, name, the quota
-- Locks       the row of `limiters`, then, under it, of `limit_tickets`
-- Complexity  O(1)
-- Retry       sets the same quota again, which changes nothing
CREATE OR REPLACE FUNCTION stanchion.limit_set_quota(
    in_namespace text, in_retention bigint, in_name text, in_amount bigint, in_period bigint, in_burst bigint
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    l stanchion.limiters;
    level stanchion.limit_level;
BEGIN
    rows := stanchion.limit_lock(in_namespace, ARRAY[in_name], true);
    l := stanchion.limit_load(rows[1], stanchion.now(), 1);
    IF l.amount IS NULL THEN
        l.tokens := in_burst;
        l.fraction := 0;
    ELSE
        level := stanchion.limit_convert(l.tokens, l.fraction, l.period, in_period, in_burst);
        l.tokens := level.tokens;
        l.fraction := level.fraction;
    END IF;
    l.amount := in_amount;
    l.period := in_period;
    l.burst := in_burst;
    l.expires := 0;
    PERFORM stanchion.limit_save(l, in_retention);
END
$$;
