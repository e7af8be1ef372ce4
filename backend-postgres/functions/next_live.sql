-- next_live: returns the first waiter after an arrival number whose process is not known to be
-- silent.
--
-- For a walk that has passed many silent waiters: they and their processes cost nothing, however
-- many they are. Waiters of a process that `processes` does not know (after a crash of the server)
-- count as silent: the crash began a grace period, in which no walk passes them.
--
-- Arguments   p_asking: the calling process, which is live, or null
--             p_known: the result of `mark_dead`
-- Returns     the arrival number; null if there is none. The next number where very many processes
--               may live: the walk goes on as before
-- Complexity  O(live processes · log waiters), of at most `most` processes
CREATE OR REPLACE FUNCTION stanchion.next_live(
    p_namespace text, p_object bigint, p_now bigint, p_asking uuid, p_known bigint[], p_after bigint
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    lasting CONSTANT bigint := 2000000;
    most CONSTANT integer := 1000;
    live CONSTANT uuid[] := ARRAY(
        -- As `each_waiter` decides.
        SELECT p.process FROM stanchion.processes p
        WHERE p.namespace = p_namespace AND p.kept >= 0 AND p.heard >= p_known[2] AND p.heard > CASE
            WHEN p_known[1] + lasting > p_now THEN -1 ELSE p_now - liveness END
        ORDER BY p.heard DESC LIMIT most);
    one uuid;
    nearest bigint;
BEGIN
    IF cardinality(live) = most THEN
        RETURN p_after + 1;
    END IF;
    FOREACH one IN ARRAY live || p_asking LOOP
        -- Ordered so that no other index serves.
        nearest := least(nearest, (
            SELECT CASE WHEN q.object = p_object AND q.process = one THEN q.arrival END FROM stanchion.waiters q
            WHERE (q.object, q.process, q.arrival) > (p_object, one, p_after)
            ORDER BY q.object, q.process, q.arrival LIMIT 1));
    END LOOP;
    RETURN nearest;
END
$$;
