-- session_first: returns the first live waiter of a mutex.
--
-- A waiter is silent as by `each_waiter`; where the tables of that cannot be written, no waiter is.
--
-- Arguments   p_asking: the calling process, which is live, or null
--             p_but: a ticket that is passed over, or null
-- Returns     its process and ticket, or nulls
-- Locks       see `mark_dead`, which is called only if a process was not heard within the last
--             second
-- Complexity  O(log waiters + live waiters passed over), and where many silent ones stand in front,
--             the time of `next_live`
CREATE OR REPLACE FUNCTION stanchion.session_first(
    p_namespace text, p_object bigint, p_asking uuid, p_but uuid, OUT process uuid, OUT ticket uuid
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    lasting CONSTANT bigint := 2000000;
    many CONSTANT integer := 256;
    clock CONSTANT bigint := stanchion.now();
    known bigint[];
    behind bigint := 0;
    seen integer;
    w record;
BEGIN
    LOOP
        seen := 0;
        FOR w IN
            SELECT q.arrival, q.process, q.ticket, coalesce(
                (SELECT p.heard FROM stanchion.processes p
                 WHERE p.namespace = p_namespace AND p.process = q.process), q.since) AS heard
            FROM stanchion.waiters q
            WHERE q.object = p_object AND q.arrival > behind AND q.ticket IS DISTINCT FROM p_but
            ORDER BY q.arrival LIMIT many
        LOOP
            seen := seen + 1;
            behind := w.arrival;
            IF w.process IS DISTINCT FROM p_asking AND w.heard NOT BETWEEN clock - liveness AND clock + liveness THEN
                IF known IS NULL THEN
                    BEGIN
                        known := stanchion.mark_dead(p_namespace, clock);
                    EXCEPTION WHEN lock_not_available OR read_only_sql_transaction THEN
                        known := ARRAY[clock, 0];
                    END;
                END IF;
                CONTINUE WHEN w.heard < known[2]
                    OR greatest(least(w.heard, clock) + liveness, known[1] + lasting) <= clock;
            END IF;
            process := w.process;
            ticket := w.ticket;
            RETURN;
        END LOOP;
        EXIT WHEN seen < many;
        behind := stanchion.next_live(p_namespace, p_object, clock, p_asking, known, behind) - 1;
        EXIT WHEN behind IS NULL;
    END LOOP;
END
$$;
