-- Returns whether this session holds a mutex. $1 namespace, $2 name.
SELECT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.pid = pg_backend_pid() AND l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
        AND (l.classid::bigint << 32) | l.objid::bigint = (SELECT stanchion.session_key($1, $2)))
