-- Returns the process id of the session that answers.
SELECT pg_catalog.pg_backend_pid()
