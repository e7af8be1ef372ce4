-- waiting_now: returns the number of waiters of an object that have not been silent for the length of their lease. Those that have are
-- removed by the next step that comes upon them.
--
-- O(waiters); takes no locks.
CREATE OR REPLACE FUNCTION stanchion.waiting_now(p_namespace text, p_object bigint, p_now bigint) RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT count(*)
    FROM stanchion.waiters q
    LEFT JOIN stanchion.processes p ON p.namespace = p_namespace AND p.process = q.process
    WHERE q.object = p_object AND greatest(q.since, abs(coalesce(p.heard, q.since))) + q.lease >= p_now;
END;
