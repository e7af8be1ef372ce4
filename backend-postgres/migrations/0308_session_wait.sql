-- Waits for a mutex, on a session that holds none.
--
-- Arguments: the namespace, the name, and the `idle_session_timeout` in ms that the session has from the grant on, until its
-- client is heard: one that is granted the lock and does not speak keeps it no longer.
-- Returns the token. Locks: the advisory lock of the name, which it waits for, in line. O(1). After any error the session
-- may hold the lock: it goes through `session_open`.
CREATE FUNCTION stanchion.session_wait(namespace text, name text, patience integer) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('idle_session_timeout', patience::text, false);
    PERFORM pg_advisory_lock(stanchion.session_key(namespace, name));
    RETURN stanchion.session_token();
END;
$$;
