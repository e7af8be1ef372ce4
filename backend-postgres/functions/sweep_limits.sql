-- sweep_limits: removes limiters that were idle for longer than their retention, with all their
-- rows (C25).
--
-- A limiter with more tickets or answers than the batch may remove goes in parts, its own row last.
-- The rows that are left mean the same as no rows.
--
-- Arguments   namespace, maximum number of rows to remove
-- Returns     the number of removed rows; fewer than the maximum if there are no more, or if the
--             others are in use
-- Locks       rows of `limiters` that no other transaction has locked; then, under these, of
--             `limit_tickets` and `limit_answers`
-- Complexity  O(batch · log rows)
-- Retry       removes more
CREATE OR REPLACE FUNCTION stanchion.sweep_limits(in_namespace text, in_batch integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    moment CONSTANT bigint := stanchion.now();
    idle bigint[];
    gone bigint;
    swept bigint := 0;
BEGIN
    PERFORM stanchion.enter();
    idle := ARRAY(
        SELECT l.id FROM stanchion.limiters AS l
        WHERE l.namespace = in_namespace AND l.expires >= 0 AND l.expires <= moment
        ORDER BY l.expires
        LIMIT in_batch
        FOR UPDATE SKIP LOCKED
    );
    FOR i IN 1 .. cardinality(idle) LOOP
        DELETE FROM stanchion.limit_tickets AS t
        WHERE t.ctid = ANY (ARRAY(
            SELECT k.ctid FROM stanchion.limit_tickets AS k WHERE k.limiter = idle[i] LIMIT in_batch - swept
        ));
        GET DIAGNOSTICS gone = ROW_COUNT;
        swept := swept + gone;
        DELETE FROM stanchion.limit_answers AS a
        WHERE a.ctid = ANY (ARRAY(
            SELECT k.ctid FROM stanchion.limit_answers AS k WHERE k.limiter = idle[i] LIMIT in_batch - swept
        ));
        GET DIAGNOSTICS gone = ROW_COUNT;
        swept := swept + gone;
        EXIT WHEN swept >= in_batch;
        DELETE FROM stanchion.limiters AS l WHERE l.id = idle[i];
        swept := swept + 1;
    END LOOP;
    RETURN swept;
END
$$;
