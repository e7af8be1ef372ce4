-- session_free: unlocks one mutex of the session, and tells who waits for it: `session_step` for one name.
--
-- p_ended    the ticket of the hold that ends, or null
-- p_noted    whether it was written who holds it
-- unlocked   whether it was locked
-- is_left    that may still be written
-- Locks, complexity and retry as there.
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
