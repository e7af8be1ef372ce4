-- waiting_now: returns the number of waiters of an object that have not lost their places.
--
-- A place is lost when its process was silent for the lease of its request, a second at least, and
-- the silence was not that of the server; the next step that comes upon it removes it.
--
-- Arguments   p_waiting: the number of recorded waiters
--             p_most: how many of the first ones are judged; those behind them all count
--             p_known: the result of `mark_dead` at p_now; null to ask it if a place may be lost
-- Returns     the number
-- Locks       see `mark_dead`
-- Complexity  O(p_most), and at times that of `mark_dead`
CREATE OR REPLACE FUNCTION stanchion.waiting_now(
    p_namespace text, p_object bigint, p_waiting bigint, p_now bigint, p_most integer, p_known bigint[]
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lasting CONSTANT bigint := 2000000;
    known bigint[] := p_known;
    silent bigint[];
BEGIN
    PERFORM stanchion.enter();
    silent := ARRAY(
        SELECT coalesce(w.heard, w.since)
        FROM (
            SELECT q.object, q.lease, least(q.since, p_now) AS since,
                   (SELECT p.heard FROM stanchion.processes p
                    WHERE p.namespace = p_namespace AND p.process = q.process) AS heard
            FROM stanchion.waiters q
            -- Ordered so that no other index serves.
            WHERE (q.object, q.arrival) > (p_object, 0) ORDER BY q.object, q.arrival LIMIT p_most
        ) w
        WHERE w.object = p_object AND greatest(w.since, abs(w.heard)) + greatest(w.lease, 1000000) < p_now);
    IF silent = '{}' THEN
        RETURN p_waiting;
    END IF;
    IF known IS NULL THEN
        known := stanchion.mark_dead(p_namespace, p_now);
    END IF;
    -- `heard` may have been read before `mark_dead` marked the process.
    RETURN greatest(p_waiting - (
        SELECT count(*) FROM unnest(silent) heard WHERE heard < known[2] OR known[1] + lasting <= p_now
    ), 0);
END
$$;
