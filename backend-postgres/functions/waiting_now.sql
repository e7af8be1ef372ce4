-- waiting_now: returns the number of waiters of an object that have not lost their places. A place is lost when its process was
-- silent for the lease of its request, a second at least; the next step that comes upon it removes it.
--
-- p_waiting  the number of recorded waiters
-- p_most     how many of the first ones are judged; those behind them all count
-- A crash of the server empties `processes`: a process that is not in it counts as heard until the grace after that is over.
-- O(p_most); takes no locks.
CREATE OR REPLACE FUNCTION stanchion.waiting_now(
    p_namespace text, p_object bigint, p_waiting bigint, p_now bigint, p_most integer
) RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT p_waiting - count(*)
    FROM (
        SELECT q.lease, least(q.since, p_now) AS since,
               (SELECT abs(p.heard) FROM stanchion.processes p
                WHERE p.namespace = p_namespace AND p.process = q.process) AS heard
        FROM stanchion.waiters q WHERE q.object = p_object ORDER BY q.arrival LIMIT p_most
    ) w
    WHERE greatest(w.since, w.heard) + greatest(w.lease, 1000000) < p_now
        AND (w.heard IS NOT NULL
             OR (SELECT g.started FROM stanchion.grace g WHERE g.namespace = p_namespace) + 2000000 <= p_now);
END;
