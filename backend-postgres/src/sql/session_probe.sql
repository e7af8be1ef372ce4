-- Returns the requests to this session to give up mutexes, and whether it takes writes. It writes
-- nothing. $1 namespace.
SELECT array_agg(e.id), array_agg(e.name), array_agg(e.token), current_setting('transaction_read_only') = 'off'
FROM stanchion.session_evictions e
WHERE e.pid = pg_backend_pid() AND e.namespace = $1 AND NOT e.declined
