-- acquire_free: grants those entries of a batch at once whose objects are free for them, without a
-- loop over the objects.
--
-- Wait groups, objects with waiters, with expired holds or with tombstones are left out: they go
-- through the loop of `acquire`, which decides the same for the granted ones.
--
-- Arguments   as in `acquire`, with one entry for each object
-- Returns     granted: the numbers of the entries, ascending; empty if the row of some object has
--               to be made
--             tokens, limits: their answers
-- Locks       the objects, in order
-- Complexity  O(entries · log holds)
CREATE OR REPLACE FUNCTION stanchion.acquire_free(
    p_namespace text, p_tokens bigint, p_state bigint, p_kinds text[], p_names text[],
    p_tickets uuid[], p_weights bigint[], p_leases bigint[], p_limits bigint[], p_checks text[], p_labels text[],
    OUT granted integer[], OUT tokens bigint[], OUT limits bigint[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[];
    clock bigint;
    are_free boolean;
BEGIN
    granted := '{}';
    -- A look without locks: rows that are missing are made in the order in which all are locked.
    SELECT array_agg(o.id ORDER BY e.at), bool_or(o.waiting = 0 AND o.kind <> 'w' AND (o.used = 0 OR o.used + e.weight <= o.lim))
    INTO ids, are_free
    FROM unnest(p_kinds, p_names, p_weights) WITH ORDINALITY e (kind, name, weight, at)
    JOIN stanchion.objects o ON o.namespace = p_namespace AND o.kind = e.kind::"char" AND o.name = e.name;
    IF NOT are_free OR cardinality(ids) IS DISTINCT FROM cardinality(p_names) THEN
        RETURN;
    END IF;
    PERFORM FROM unnest(ids) WITH ORDINALITY e (id, at) JOIN stanchion.objects o USING (id) ORDER BY e.at FOR UPDATE OF o;
    clock := stanchion.now();
    WITH changed AS (
        UPDATE stanchion.objects o SET
            lim = CASE WHEN o.lim IS NULL OR (o.used = 0 AND clock - o.touched > p_state) THEN e.lim ELSE o.lim END,
            token = greatest(o.token + 1, clock),
            used = o.used + e.weight,
            next = CASE WHEN o.used = 0 THEN clock + e.lease ELSE least(o.next, clock + e.lease) END,
            expires = CASE WHEN o.expires < clock + e.lease + p_tokens THEN clock + e.lease + p_tokens + p_tokens / 8
                           ELSE o.expires END
        FROM unnest(ids, p_tickets, p_weights, p_leases, p_limits, p_checks, p_labels)
            WITH ORDINALITY e (id, ticket, weight, lease, lim, checks, label, at)
        WHERE o.id = e.id AND o.waiting = 0 AND NOT o.keyed AND o.kind <> 'w' AND e.checks <> 's'
            AND (o.used = 0 OR o.next > clock) AND o.tombstones_until <= clock
            AND CASE
                WHEN o.lim IS NULL OR (o.used = 0 AND clock - o.touched > p_state) THEN e.weight <= e.lim
                ELSE o.used + e.weight <= o.lim AND (o.lim = e.lim OR e.checks = 'a')
            END
            AND NOT (o.used > 0 AND EXISTS (
                SELECT FROM stanchion.holds h WHERE h.object + 0 = o.id AND h.ticket = e.ticket))
        RETURNING o.id, o.lim, o.token, e.ticket, e.weight, e.lease, e.label, e.at
    ), held AS (
        INSERT INTO stanchion.holds (object, ticket, weight, expiry, granted, token, label)
        SELECT c.id, c.ticket, c.weight, clock + c.lease, clock, c.token, c.label FROM changed c
    )
    SELECT coalesce(array_agg(c.at::integer ORDER BY c.at), '{}'), array_agg(c.token ORDER BY c.at), array_agg(c.lim ORDER BY c.at)
    INTO granted, tokens, limits FROM changed c;
END
$$;
