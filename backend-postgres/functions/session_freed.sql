-- session_freed: returns the first live waiter of a mutex that was just unlocked.
--
-- Arguments   p_ended: the ticket of the hold that ended, whose place may not be removed yet, or
--             null
-- Returns     its process and ticket, or nulls
-- Complexity  O(log objects), with a queue O(log waiters + waiters passed over)
CREATE OR REPLACE FUNCTION stanchion.session_freed(
    p_namespace text, p_name text, p_ended uuid, OUT process uuid, OUT ticket uuid
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    object CONSTANT bigint := (
        SELECT x.id FROM stanchion.objects x
        WHERE x.namespace = p_namespace AND x.kind = 'm' AND x.name = p_name AND x.waiting > 0);
BEGIN
    IF object IS NOT NULL THEN
        SELECT f.process, f.ticket INTO process, ticket
        FROM stanchion.session_first(p_namespace, object, NULL, p_ended) f;
    END IF;
END
$$;
