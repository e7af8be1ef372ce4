-- Returns whether the server is a standby, and the mutex mode and the layout of a namespace. What others have locked is not waited for.
-- {namespace} and {mode} are literals; {layout} is the layout of a new one.
SET LOCAL lock_timeout = '100ms';
SELECT pg_catalog.pg_is_in_recovery() AS standby, mutex_mode, layout
FROM stanchion.open_namespace({namespace}, {mode}, {layout});
