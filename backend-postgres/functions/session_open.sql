-- session_open: prepares a session to keep mutexes; it holds none then. For a new session, or one
-- whose state is unknown.
--
-- Returns     its process id
-- Locks       releases all advisory locks of the session
-- Complexity  O(locks held)
-- Retry       does the same again
CREATE OR REPLACE FUNCTION stanchion.session_open() RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_unlock_all();
    RETURN pg_backend_pid();
END
$$;
