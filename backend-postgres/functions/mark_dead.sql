-- mark_dead: decides which processes of a namespace are dead.
--
-- Waiting processes are heard three times a second. If none was heard for 0.6 s, the reason may be
-- the server: it may have been stalled or restarted. So a grace period of 2 s begins, in which no
-- process is judged dead. Processes that were silent for a whole grace period are marked dead by a
-- negative time, so that they alone cannot start another one. After a crash the unlogged tables are
-- empty: a grace period begins.
--
-- Arguments   the namespace and the time
-- Returns     the beginning of the last grace period, and a time `t`: processes that were silent
--             since before `t` have just been marked dead
-- Locks       rows of other processes and of `grace`; waits for none of them. If another
--             transaction has locked the row of `grace`, that one begins a grace period right now.
--             Only the insert of the first row of a namespace may wait, before any row in
--             `processes` is locked
-- Complexity  O(part · log processes)
-- Retry       decides again
CREATE OR REPLACE FUNCTION stanchion.mark_dead(p_namespace text, p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    unheard CONSTANT bigint := 600000;
    lasting CONSTANT bigint := 2000000;
    start bigint;
    before bigint;
    newest bigint;
    last bigint;
    marked bigint := 0;
    -- Maximum number of processes that one call marks. The next one goes on; before all are marked,
    -- no grace period begins, and whoever is not marked counts as in one.
    part CONSTANT integer := 500;
BEGIN
    SELECT (SELECT g.started FROM stanchion.grace g WHERE g.namespace = p_namespace),
           (SELECT p.heard FROM stanchion.processes p WHERE p.namespace = p_namespace AND p.kept >= 0
            ORDER BY p.heard DESC LIMIT 1)
    INTO start, last;
    IF start IS NULL THEN
        INSERT INTO stanchion.waited (namespace) VALUES (p_namespace) ON CONFLICT DO NOTHING;
        start := CASE WHEN FOUND THEN 0 ELSE p_now END;
        INSERT INTO stanchion.grace (namespace, started) VALUES (p_namespace, start) ON CONFLICT DO NOTHING;
        RETURN ARRAY[start, 0];
    END IF;
    before := start;
    -- After a step back of the clock, times in the future count as now.
    IF start > p_now THEN
        start := 0;
    END IF;
    IF last > p_now + liveness THEN
        UPDATE stanchion.processes p SET heard = p_now WHERE p.ctid = ANY (ARRAY(
            SELECT q.ctid FROM stanchion.processes q
            WHERE q.namespace = p_namespace AND q.kept >= 0 AND q.heard > p_now
            ORDER BY q.heard DESC LIMIT part FOR UPDATE SKIP LOCKED));
    ELSIF last > 0 AND last < p_now - unheard AND p_now >= start + lasting THEN
        SELECT g.started INTO newest FROM stanchion.grace g WHERE g.namespace = p_namespace
        FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN ARRAY[p_now, 0];
        END IF;
        IF newest <> before THEN
            RETURN ARRAY[least(newest, p_now), 0];
        END IF;
        IF start > 0 THEN
            marked := start;
            UPDATE stanchion.processes p SET heard = -p.heard WHERE p.ctid = ANY (ARRAY(
                SELECT q.ctid FROM stanchion.processes q
                WHERE q.namespace = p_namespace AND q.kept >= 0 AND q.heard >= 1 AND q.heard < start
                ORDER BY q.heard LIMIT part FOR UPDATE SKIP LOCKED));
        END IF;
        -- What is still to be marked would count as live for as long as the next grace period.
        IF EXISTS (SELECT FROM stanchion.processes p
                   WHERE p.namespace = p_namespace AND p.kept >= 0 AND p.heard >= 1 AND p.heard < start) THEN
            RETURN ARRAY[p_now, marked];
        END IF;
        IF last >= start THEN
            start := p_now;
            UPDATE stanchion.grace g SET started = p_now WHERE g.namespace = p_namespace;
        END IF;
    END IF;
    RETURN ARRAY[start, marked];
END
$$;
