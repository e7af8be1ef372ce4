-- mark_live: notes that the calling process is live, and keeps that note as long as its waiters
-- keep their places.
--
-- Arguments   p_keep: how long to keep the note. A note of the last 0.1 s is not written again
-- Locks       the process's own row. Waits only for another first call of the same process. See
--             also `mark_dead`
-- Complexity  O(log processes), and sometimes the time of `mark_dead`
-- Retry       notes it again
CREATE OR REPLACE FUNCTION stanchion.mark_live(p_namespace text, p_process uuid, p_now bigint, p_keep bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fresh CONSTANT bigint := 100000;
    unheard CONSTANT bigint := 600000;
    before bigint;
    until bigint;
BEGIN
    SELECT p.heard, p.kept INTO before, until FROM stanchion.processes p
    WHERE p.namespace = p_namespace AND p.process = p_process;
    IF before > p_now - fresh AND before <= p_now AND until >= p_now + p_keep THEN
        RETURN;
    END IF;
    -- A process that was heard a moment ago shows that the server was not stalled.
    IF before IS NULL OR before < p_now - unheard OR before > p_now THEN
        PERFORM stanchion.mark_dead(p_namespace, p_now);
    END IF;
    IF until IS NULL OR until < p_now + p_keep THEN
        until := p_now + p_keep + p_keep / 8;
    END IF;
    IF before IS NULL THEN
        INSERT INTO stanchion.processes (namespace, process, heard, kept)
        VALUES (p_namespace, p_process, p_now, until)
        ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    -- If the row is locked, another call is just writing the note.
    PERFORM FROM stanchion.processes p WHERE p.namespace = p_namespace AND p.process = p_process
    FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE stanchion.processes p SET heard = p_now, kept = greatest(p.kept, until)
        WHERE p.namespace = p_namespace AND p.process = p_process;
    END IF;
END
$$;
