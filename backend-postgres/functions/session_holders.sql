-- session_holders: returns the sessions that hold or wait for a mutex.
--
-- Arguments   the namespace and the name
-- Returns     the process id of each session, its application name, and whether it holds the mutex
-- Complexity  O(locks of the server)
CREATE OR REPLACE FUNCTION stanchion.session_holders(namespace text, name text)
RETURNS TABLE (pid integer, application text, holds boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.pid, coalesce(a.application_name, ''), l.granted
    FROM stanchion.session_locks() l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    -- Computed once, not for each lock.
    WHERE l.key = (SELECT stanchion.session_key(session_holders.namespace, session_holders.name));
END;
