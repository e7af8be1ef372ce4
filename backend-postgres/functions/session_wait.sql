-- Waits for a mutex, on a session that holds none.
--
-- Arguments: the namespace, the name, and the `idle_session_timeout` in ms that the session has from the grant until
-- the next statement of its client: a session whose client is silent after the grant does not keep the lock for longer.
-- Returns the token; or 0 if no session of this process has been heard for 2 s: then it releases the lock and gives up
-- its place in the queue, so that many stopped processes in the queue cost the others no more than the first two.
-- Locks: the advisory lock of the name, for which it waits in the queue. O(1), and O(sessions of the server) after 2 s.
-- After any error the session may hold the lock: it must call `session_open`.
CREATE OR REPLACE FUNCTION stanchion.session_wait(namespace text, name text, patience integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
