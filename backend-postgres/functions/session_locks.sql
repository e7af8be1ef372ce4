-- session_locks: returns the advisory locks of this database that have one key, as those of mutexes
-- do, with the sessions that have them or wait for them.
--
-- Returns     the process id of the session, 0 if it is a prepared transaction that has the lock;
--             whether it has the lock; and the key
-- Complexity  O(locks of the server)
CREATE OR REPLACE FUNCTION stanchion.session_locks() RETURNS TABLE (pid integer, granted boolean, key bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(l.pid, 0), l.granted, (l.classid::bigint << 32) | l.objid::bigint
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
END;
