-- session_locks: the advisory locks of this database that have one key, as mutexes do, with the sessions that have them or wait for
-- them.
CREATE OR REPLACE VIEW stanchion.session_locks AS
SELECT l.pid, l.granted, (l.classid::bigint << 32) | l.objid::bigint AS key
FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.objsubid = 1
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
