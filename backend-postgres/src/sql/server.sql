-- Returns the server's own settings, and the settings of this session.
SELECT
    current_setting('server_version_num')::integer AS version,
    pg_is_in_recovery() AS standby,
    current_setting('default_transaction_read_only') AS read_only,
    current_setting('server_encoding') AS encoding,
    current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('statement_timeout') AS statement_timeout,
    current_setting('default_transaction_isolation') AS isolation
