-- Returns the sessions that hold or wait for a mutex.
--
-- Arguments: the namespace and the name. Returns the process id of each session, its application name, and whether it
-- holds the mutex; of one that has held it for a second also the ticket, the token, the age in µs and the label. Locks: none.
-- O(locks of the server).
CREATE OR REPLACE FUNCTION stanchion.session_holders(namespace text, name text)
RETURNS TABLE (pid integer, application text, holds boolean, ticket uuid, token bigint, age bigint, label text)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.pid, coalesce(a.application_name, ''), l.granted, g.ticket, g.token, stanchion.now() - g.granted, g.label
    FROM stanchion.session_locks() l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    LEFT JOIN stanchion.session_grants g
        ON g.namespace = session_holders.namespace AND g.name = session_holders.name AND g.pid = l.pid AND l.granted
        -- The start of another role's session is not shown to all.
        AND coalesce(a.backend_start, g.started) = g.started
    WHERE l.key = stanchion.session_key(session_holders.namespace, session_holders.name);
END;
