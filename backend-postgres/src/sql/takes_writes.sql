-- Returns whether the server is a standby, and whether a transaction of this session is read-only.
SELECT pg_catalog.pg_is_in_recovery() AS standby, pg_catalog.current_setting('transaction_read_only') AS read_only
