-- judge: what is known of the liveness of a namespace's processes: {when the last grace began, before when whoever was
-- silent has been marked just now}.
--
-- Waiting processes are heard three times a second. If nobody was for 0.6 s, it was not they who were silent: the server
-- may have been stalled or restarted, and a grace of 2 s begins in which nobody is judged dead. Who was silent all through
-- an earlier grace has had his and is marked by a negative time, so that the dead alone start no other. After a crash the
-- tables that know are empty: a grace begins.
--
-- Locks  rows of other processes and of `grace`, never waiting for them. Where another transaction has that of `grace`, it
--        begins one right now. Only the first row of a namespace is waited for, before any row in `processes`.
-- O(processes of the namespace).
CREATE FUNCTION stanchion.judge(p_namespace text, p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    liveness CONSTANT bigint := 1000000;
    unheard CONSTANT bigint := 600000;
    lasting CONSTANT bigint := 2000000;
    start bigint;
    before bigint;
    newest bigint;
    last bigint;
    marked bigint := 0;
BEGIN
    SELECT (SELECT g.started FROM stanchion.grace g WHERE g.namespace = p_namespace),
           (SELECT max(p.heard) FROM stanchion.processes p WHERE p.namespace = p_namespace)
    INTO start, last;
    IF start IS NULL THEN
        start := 0;
        IF EXISTS (SELECT FROM stanchion.waiters w JOIN stanchion.objects x ON x.id = w.object
                   WHERE x.namespace = p_namespace) THEN
            start := p_now;
        END IF;
        INSERT INTO stanchion.grace (namespace, started) VALUES (p_namespace, start) ON CONFLICT DO NOTHING;
        RETURN ARRAY[start, 0];
    END IF;
    before := start;
    -- After a step back of the clock what lies ahead counts as now.
    IF start > p_now THEN
        start := 0;
    END IF;
    IF last > p_now + liveness THEN
        UPDATE stanchion.processes p SET heard = p_now
        FROM (SELECT q.process FROM stanchion.processes q
              WHERE q.namespace = p_namespace AND q.heard > p_now FOR UPDATE SKIP LOCKED) ahead
        WHERE p.namespace = p_namespace AND p.process = ahead.process;
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
            UPDATE stanchion.processes p SET heard = -p.heard
            FROM (SELECT q.process FROM stanchion.processes q
                  WHERE q.namespace = p_namespace AND q.heard >= 1 AND q.heard < start
                  FOR UPDATE SKIP LOCKED) silent
            WHERE p.namespace = p_namespace AND p.process = silent.process;
        END IF;
        IF last >= start THEN
            start := p_now;
            UPDATE stanchion.grace g SET started = p_now WHERE g.namespace = p_namespace;
        END IF;
    END IF;
    RETURN ARRAY[start, marked];
END
$$;
