-- inspect_part: returns the state of an object at one instant, and a part of its holds, without a
-- lock on it: one statement sees one state.
--
-- A renewed hold comes again, in a later part; a hold whose lease was shortened since the part
-- before may come in none. About 500 holds at most end together, since one request renews no more.
--
-- Arguments   p_after: the `next` of the part before; 0 for the first part
--             p_most: how many holds at least, if there are as many; with them come all others that
--               end when the last of them does; 0 for none
-- Returns     no row if there is no record
--             clock, lim, waiting, weight: the time, the limit (null if none is in force), the
--               number of waiters (0 in any part but the first), and the weight of all holds
--             tickets, …: the holds whose leases end after p_after, in the order of these ends
--             next: null if there are no more holds
-- Locks       none; where a waiter was silent for long, `waiting_now` may judge its process
-- Complexity  O(p_most), and for the waiters O(min(waiters, 500)); see `expired_weight`
CREATE OR REPLACE FUNCTION stanchion.inspect_part(
    p_namespace text, p_state bigint, p_kind text, p_name text, p_after bigint, p_most integer
)
RETURNS TABLE (
    clock bigint, lim bigint, waiting bigint, weight bigint, tickets uuid[], tokens bigint[], weights bigint[],
    granted bigint[], expiries bigint[], labels text[], next bigint
)
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT c.clock,
           CASE WHEN x.used > e.weight OR x.waiting > 0
                     OR c.clock - greatest(x.touched, e.latest) <= p_state THEN x.lim END,
           CASE WHEN x.waiting > 0 AND p_after = 0
               THEN stanchion.waiting_now(p_namespace, x.id, x.waiting, c.clock, 500, NULL) ELSE 0 END,
           x.used - e.weight,
           coalesce(h.tickets, '{}'), coalesce(h.tokens, '{}'), coalesce(h.weights, '{}'), coalesce(h.granted, '{}'),
           coalesce(h.expiries, '{}'), coalesce(h.labels, '{}'), CASE WHEN h.found >= p_most THEN h.latest END
    FROM (SELECT stanchion.now() AS clock OFFSET 0) c
    JOIN stanchion.objects x ON x.namespace = p_namespace AND x.kind = p_kind::"char" AND x.name = p_name
    CROSS JOIN LATERAL stanchion.expired_weight(x.id, c.clock) e
    CROSS JOIN LATERAL (
        SELECT count(*) AS found, max(y.expiry) AS latest, array_agg(y.ticket) AS tickets, array_agg(y.token) AS tokens,
               array_agg(y.weight) AS weights, array_agg(y.granted) AS granted, array_agg(y.expiry) AS expiries,
               array_agg(y.label) AS labels
        FROM (
            -- Ordered so that no other index serves.
            SELECT z.* FROM stanchion.holds z
            WHERE (z.object, z.expiry) > (x.id, greatest(c.clock, p_after)) AND p_most > 0
            ORDER BY z.object, z.expiry FETCH FIRST (p_most) ROWS WITH TIES
        ) y
        WHERE y.object = x.id
    ) h;
END;
