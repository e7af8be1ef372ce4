-- Returns the server's own settings, and the settings of this session.
SELECT
    pg_catalog.current_setting('server_version_num')::integer AS version,
    pg_catalog.pg_is_in_recovery() AS standby,
    pg_catalog.current_setting('default_transaction_read_only') AS read_only,
    pg_catalog.current_setting('server_encoding') AS encoding,
    pg_catalog.current_setting('fsync') AS fsync,
    coalesce((
        SELECT s.ssl FROM pg_catalog.pg_stat_ssl s WHERE s.pid = pg_catalog.pg_backend_pid()), false) AS encrypted,
    pg_catalog.current_setting('synchronous_commit') AS synchronous_commit,
    (SELECT s.setting FROM pg_catalog.pg_settings s WHERE s.name = 'statement_timeout') AS statement_timeout,
    pg_catalog.current_setting('default_transaction_isolation') AS isolation
