-- Makes a session one that keeps mutexes, holding none: a new one, or one in doubt.
--
-- Returns its process id. Locks: gives up all advisory locks of the session, then those of `session_join`. O(locks held). A
-- retry does the same again.
CREATE FUNCTION stanchion.session_open() RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_unlock_all();
    PERFORM stanchion.session_join(true);
    RETURN pg_backend_pid();
END;
$$;
