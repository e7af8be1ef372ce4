-- Prepares a session to keep mutexes; it holds none then. For a new session, or one whose state is unknown.
--
-- Returns its process id. Locks: releases all advisory locks of the session, then takes those of `session_join`.
-- O(locks held). A retry does the same again.
CREATE OR REPLACE FUNCTION stanchion.session_open() RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_unlock_all();
    PERFORM stanchion.session_join(true);
    RETURN pg_backend_pid();
END;
$$;
