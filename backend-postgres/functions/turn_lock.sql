-- turn_lock: locks a mutex for the transaction of the caller, whose turn it is.
--
-- Arguments   p_time: how long to wait, in ms; 0 does not wait
-- Returns     the server process, or 0 if another transaction has the mutex
-- Locks       the advisory lock of the name until the end of the transaction. Nothing is locked for
--             the session: whatever ends the call, the end of the transaction frees the lock
-- Complexity  O(1)
-- Retry       is granted again
CREATE OR REPLACE FUNCTION stanchion.turn_lock(p_namespace text, p_name text, p_time bigint) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before CONSTANT text := current_setting('lock_timeout');
BEGIN
    IF p_time = 0 THEN
        RETURN CASE WHEN pg_try_advisory_xact_lock(stanchion.session_key(p_namespace, p_name))
            THEN pg_backend_pid() ELSE 0 END;
    END IF;
    BEGIN
        PERFORM set_config('lock_timeout', p_time::text, true);
        PERFORM pg_advisory_xact_lock(stanchion.session_key(p_namespace, p_name));
        PERFORM set_config('lock_timeout', before, true);
    EXCEPTION WHEN lock_not_available THEN
        RETURN 0;
    END;
    RETURN pg_backend_pid();
END
$$;
