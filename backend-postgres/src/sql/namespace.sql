-- Returns the mutex mode and the layout of a namespace, and the settings of this session.
-- $1 namespace, $2 mutex mode and $3 layout of a new one.
SELECT
    mutex_mode,
    layout,
    pg_catalog.current_setting('transaction_isolation') AS isolation,
    pg_catalog.current_setting('synchronous_commit') AS synchronous_commit
FROM stanchion.open_namespace($1, $2, $3)
