-- Waits for a mutex, on a session that holds none.
--
-- Arguments: the namespace, the name, and the `idle_session_timeout` in ms that the session has from the grant on, until its
-- client is heard: one that is granted the lock and does not speak keeps it no longer.
-- Returns the token; or 0 where no session of this process has been heard for 2 s, so that many stopped processes in line
-- cost the others no more than the first two: then the lock is given up, and the place in line with it.
-- Locks: the advisory lock of the name, which it waits for, in line. O(1), and O(sessions of the server) after 2 s. After any
-- error the session may hold the lock: it goes through `session_open`.
CREATE FUNCTION stanchion.session_wait(namespace text, name text, patience integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('idle_session_timeout', patience::text, false);
    PERFORM pg_advisory_lock(stanchion.session_key(namespace, name));
    IF clock_timestamp() > began + interval '2 s' AND stanchion.session_is_silent() THEN
        PERFORM pg_advisory_unlock(stanchion.session_key(namespace, name));
        RETURN 0;
    END IF;
    RETURN stanchion.session_token();
END;
$$;
