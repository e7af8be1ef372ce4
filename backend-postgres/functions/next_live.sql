-- next_live: returns the first waiter after an arrival number whose process is not known to be
-- silent.
--
-- For a walk that has passed many silent waiters: the waiters of a process cost the same however
-- many they are. Waiters of a process that `processes` does not know (after a crash of the server)
-- are left to the walk.
--
-- Arguments   p_asking: the calling process, which is live, or null
--             p_known: the result of `mark_dead`
-- Returns     the arrival number; null if there is none
-- Complexity  O(processes that wait · log waiters)
CREATE OR REPLACE FUNCTION stanchion.next_live(
    p_namespace text, p_object bigint, p_now bigint, p_asking uuid, p_known bigint[], p_after bigint
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    lasting CONSTANT bigint := 2000000;
    one uuid := (SELECT q.process FROM stanchion.waiters q WHERE q.object = p_object ORDER BY q.process LIMIT 1);
    said bigint;
    nearest bigint;
BEGIN
    WHILE one IS NOT NULL LOOP
        said := (SELECT p.heard FROM stanchion.processes p WHERE p.namespace = p_namespace AND p.process = one);
        -- As `each_waiter` decides. One that was never heard is left to it: then each waiter's own
        -- time counts.
        IF said IS NULL OR one = p_asking OR said BETWEEN p_now - liveness + 1 AND p_now + liveness OR (
            said >= p_known[2] AND greatest(least(said, p_now) + liveness, p_known[1] + lasting) > p_now)
        THEN
            -- Ordered so that no other index serves.
            nearest := least(nearest, (
                SELECT CASE WHEN q.object = p_object AND q.process = one THEN q.arrival END FROM stanchion.waiters q
                WHERE (q.object, q.process, q.arrival) > (p_object, one, p_after)
                ORDER BY q.object, q.process, q.arrival LIMIT 1));
        END IF;
        one := (
            SELECT CASE WHEN q.object = p_object THEN q.process END FROM stanchion.waiters q
            WHERE (q.object, q.process) > (p_object, one) ORDER BY q.object, q.process LIMIT 1);
    END LOOP;
    RETURN nearest;
END
$$;
