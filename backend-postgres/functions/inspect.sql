-- inspect: returns the state of an object at one instant, without a lock: one statement sees one state.
--
-- clock, lim, waiting  the time, the limit (null if none is in force), and the number of waiters
-- tickets, …           the holds in the order of their grants
-- Returns no row if there is no record. O(holds), and for the waiters O(min(waiters, 1,000)). Retry: asks again.
CREATE OR REPLACE FUNCTION stanchion.inspect(p_namespace text, p_state bigint, p_kind text, p_name text)
RETURNS TABLE (
    clock bigint, lim bigint, waiting bigint, tickets uuid[], tokens bigint[], weights bigint[], granted bigint[],
    expiries bigint[], labels text[]
)
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT c.clock,
           CASE WHEN h.live IS NOT NULL OR x.waiting > 0
                     OR c.clock - greatest(x.touched, h.latest) <= p_state THEN x.lim END,
           CASE WHEN x.waiting > 0 THEN stanchion.waiting_now(p_namespace, x.id, x.waiting, c.clock, 1000) ELSE 0 END,
           coalesce(h.tickets, '{}'), coalesce(h.tokens, '{}'), coalesce(h.weights, '{}'), coalesce(h.granted, '{}'),
           coalesce(h.expiries, '{}'), coalesce(h.labels, '{}')
    FROM (SELECT stanchion.now() AS clock OFFSET 0) c
    JOIN stanchion.objects x ON x.namespace = p_namespace AND x.kind = p_kind::"char" AND x.name = p_name
    CROSS JOIN LATERAL (
        SELECT sum(y.weight) FILTER (WHERE y.live) AS live,
               max(y.expiry) FILTER (WHERE NOT y.live) AS latest,
               array_agg(y.ticket ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS tickets,
               array_agg(y.token ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS tokens,
               array_agg(y.weight ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS weights,
               array_agg(y.granted ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS granted,
               array_agg(y.expiry ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS expiries,
               array_agg(y.label ORDER BY y.granted, y.token) FILTER (WHERE y.live) AS labels
        FROM (SELECT z.*, z.expiry > c.clock AS live FROM stanchion.holds z WHERE z.object = x.id) y
    ) h;
END;
