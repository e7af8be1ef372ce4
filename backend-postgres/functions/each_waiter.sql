-- each_waiter: returns the next waiters of an object after an arrival number, in order.
--
-- `mark_dead` is called only if a process was not heard within the last second.
--
-- Arguments   p_asking: the calling process, which is live, or null
--             p_count: how many; null for all
-- Returns     till: the time until which the waiter counts as live
--             lost: whether it was silent for the length of its lease: it has to be removed
-- Locks       see `mark_dead`
-- Complexity  O(log waiters + p_count)
CREATE OR REPLACE FUNCTION stanchion.each_waiter(
    p_namespace text, p_object bigint, p_now bigint, p_asking uuid, p_after bigint, p_count integer
) RETURNS TABLE (
    arrival bigint, ticket uuid, process uuid, weight bigint, till bigint, lost boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    lasting CONSTANT bigint := 2000000;
    known bigint[];
    heard bigint;
    w record;
BEGIN
    FOR w IN
        SELECT q.arrival, q.ticket, q.process, q.weight, q.lease, q.since,
               (SELECT p.heard FROM stanchion.processes p
                WHERE p.namespace = p_namespace AND p.process = q.process) AS heard
        FROM stanchion.waiters q
        WHERE q.object = p_object AND q.arrival > p_after
        ORDER BY q.arrival LIMIT p_count
    LOOP
        heard := coalesce(w.heard, w.since);
        IF w.process = p_asking THEN
            till := p_now + liveness;
        ELSE
            till := heard + liveness;
            IF till <= p_now OR till > p_now + 2 * liveness THEN
                IF known IS NULL THEN
                    known := stanchion.mark_dead(p_namespace, p_now);
                END IF;
                -- `heard` may have been read before `mark_dead` marked the process.
                IF heard < known[2] THEN
                    till := 0;
                ELSE
                    till := greatest(least(heard, p_now) + liveness, known[1] + lasting);
                END IF;
            END IF;
        END IF;
        arrival := w.arrival;
        ticket := w.ticket;
        process := w.process;
        weight := w.weight;
        lost := till <= p_now AND greatest(w.since, abs(heard)) + w.lease < p_now;
        RETURN NEXT;
    END LOOP;
END
$$;
