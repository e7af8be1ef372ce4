-- release_free: ends holds of objects for which nobody waits, without a loop over the objects.
--
-- Wait groups, objects with waiters and objects with expired holds are left out: they go through
-- the loop of `release`, which decides the same for the others.
--
-- Arguments   as in `release`, with one entry for each object, and without tombstones
-- Returns     done: the numbers of the entries that were decided
--             kept: of these, the numbers of those whose hold was there
-- Locks       the objects, in order
-- Complexity  O(entries · log holds)
CREATE OR REPLACE FUNCTION stanchion.release_free(
    p_namespace text, p_tokens bigint, p_kinds text[], p_names text[], p_tickets uuid[], OUT done integer[], OUT kept integer[]
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ids bigint[];
    clock bigint;
BEGIN
    ids := ARRAY(
        SELECT o.id FROM unnest(p_kinds, p_names) WITH ORDINALITY e (kind, name, at)
        LEFT JOIN stanchion.objects o ON o.namespace = p_namespace AND o.kind = e.kind::"char" AND o.name = e.name
        ORDER BY e.at);
    PERFORM FROM unnest(ids) WITH ORDINALITY e (id, at) JOIN stanchion.objects o USING (id) ORDER BY e.at FOR UPDATE OF o;
    clock := stanchion.now();
    WITH free AS MATERIALIZED (
        SELECT o.id, e.ticket, e.at FROM unnest(ids, p_tickets) WITH ORDINALITY e (id, ticket, at)
        JOIN stanchion.objects o USING (id) WHERE o.waiting = 0 AND o.next > clock AND o.kind <> 'w'
    ), ended AS (
        DELETE FROM stanchion.holds h USING free f WHERE h.object + 0 = f.id AND h.ticket = f.ticket
        RETURNING f.id, h.weight, f.at
    ), freed AS (
        UPDATE stanchion.objects o SET
            used = o.used - e.weight,
            touched = clock,
            expires = CASE WHEN o.expires < clock + p_tokens THEN clock + p_tokens + p_tokens / 8 ELSE o.expires END
        FROM ended e WHERE o.id = e.id
    )
    SELECT ARRAY(SELECT f.at::integer FROM free f ORDER BY f.at), ARRAY(SELECT e.at::integer FROM ended e ORDER BY e.at)
    INTO done, kept;
END
$$;
