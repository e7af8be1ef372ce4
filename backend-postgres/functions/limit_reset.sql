-- limit_reset: removes reservations, and when none is left, fills the bucket. A name without a
-- bucket stays without.
--
-- The latest time seen stays, and so do the refunds of the last 60 s.
--
-- Arguments   namespace, retention in µs, name
-- Locks       the row of `limiters`, then, under it, of `limit_tickets`
-- Returns     whether the bucket is full; if not, there are more reservations to remove
-- Complexity  O(part · log reservations)
-- Retry       fills it again
CREATE OR REPLACE FUNCTION stanchion.limit_reset(in_namespace text, in_retention bigint, in_name text)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    part CONSTANT integer := 500;
    rows stanchion.limiters[];
    l stanchion.limiters;
    removed integer;
BEGIN
    rows := stanchion.limit_lock(in_namespace, ARRAY[in_name], false);
    l := rows[1];
    IF l.amount IS NULL THEN
        RETURN true;
    END IF;
    l := stanchion.limit_load(l, stanchion.now(), 1);
    DELETE FROM stanchion.limit_tickets AS t WHERE t.ctid = ANY (ARRAY(
        SELECT r.ctid FROM stanchion.limit_tickets AS r
        WHERE r.limiter = l.id AND r.refund IS NULL AND r.until > 0 ORDER BY r.until LIMIT part
    ));
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed < part THEN
        l.tokens := l.burst;
        l.fraction := 0;
        l.latest := 0;
        l.taken := 0;
        l.expires := 0;
    END IF;
    PERFORM stanchion.limit_save(l, in_retention);
    RETURN removed < part;
END
$$;
