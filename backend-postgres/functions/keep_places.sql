-- keep_places: notes that the calling process is live, and no more, so that its waiters keep their
-- places.
--
-- Arguments   the namespace and the process
-- Returns     false if the process has to poll: it was silent or is unknown, its note ends soon, or
--             no process was heard for so long that a grace period may have to begin (`mark_dead`)
-- Locks       the process's own row; waits for nothing
-- Complexity  O(log processes)
-- Retry       notes it again
CREATE OR REPLACE FUNCTION stanchion.keep_places(p_namespace text, p_process uuid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    unheard CONSTANT bigint := 600000;
    fresh CONSTANT bigint := 100000;
    clock CONSTANT bigint := stanchion.now();
    before bigint;
    until bigint;
    last bigint;
BEGIN
    SELECT p.heard, p.kept INTO before, until FROM stanchion.processes p
    WHERE p.namespace = p_namespace AND p.process = p_process;
    SELECT p.heard INTO last FROM stanchion.processes p
    WHERE p.namespace = p_namespace AND p.kept >= 0 ORDER BY p.heard DESC LIMIT 1;
    IF before IS NULL OR abs(clock - before) >= liveness OR abs(clock - last) >= unheard
        OR until < clock + 2 * liveness
    THEN
        RETURN false;
    END IF;
    IF before > clock - fresh THEN
        RETURN true;
    END IF;
    -- If the row is locked, another call is just writing the note.
    PERFORM FROM stanchion.processes p WHERE p.namespace = p_namespace AND p.process = p_process
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE stanchion.processes p SET heard = clock WHERE p.namespace = p_namespace AND p.process = p_process;
    END IF;
    RETURN true;
END
$$;
