-- session_free: unlocks one mutex of the session, and returns its first waiter: `session_step` for
-- one name.
--
-- Arguments   p_ended: the ticket of the hold that ends, or null
--             p_noted: whether its holder was written
-- Returns     unlocked: whether it was locked
--             process, ticket: the first waiter, or nulls
--             is_left: whether the row of its holder may still be written
-- Locks       as `session_step`
-- Complexity  as `session_step`
-- Retry       as `session_step`
CREATE OR REPLACE FUNCTION stanchion.session_free(
    p_namespace text, p_name text, p_ended uuid, p_noted boolean, OUT unlocked boolean, OUT process uuid, OUT ticket uuid, OUT is_left boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    unlocked := pg_advisory_unlock(stanchion.session_key(p_namespace, p_name));
    BEGIN
        SELECT f.process, f.ticket INTO process, ticket FROM stanchion.session_freed(p_namespace, p_name, p_ended) f;
    EXCEPTION WHEN lock_not_available THEN
        -- Somebody has locked a table. The waiter asks by itself.
    END;
    is_left := p_noted AND stanchion.session_forget(p_namespace, ARRAY[p_name], ARRAY[p_ended]) <> '{}';
END
$$;
