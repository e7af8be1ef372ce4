-- limit_reset: fills the bucket and removes the reservations. A name without a bucket stays
-- without.
--
-- The latest time seen stays, and so do the refunds of the last 60 s.
--
-- Arguments   namespace, retention in µs, name
-- Locks       the row of `limiters`, then, under it, of `limit_tickets`
-- Complexity  O(reservations)
-- Retry       fills it again
CREATE OR REPLACE FUNCTION stanchion.limit_reset(in_namespace text, in_retention bigint, in_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    rows stanchion.limiters[];
    l stanchion.limiters;
BEGIN
    rows := stanchion.limit_lock(in_namespace, ARRAY[in_name], false);
    l := rows[1];
    IF l.amount IS NULL THEN
        RETURN;
    END IF;
    l := stanchion.limit_load(l, stanchion.now());
    l.tokens := l.burst;
    l.fraction := 0;
    l.latest := 0;
    l.taken := 0;
    DELETE FROM stanchion.limit_tickets AS t WHERE t.limiter = l.id AND t.refund IS NULL;
    l.expires := 0;
    PERFORM stanchion.limit_save(l, in_retention);
END
$$;
