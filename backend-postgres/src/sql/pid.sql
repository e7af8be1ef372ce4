-- Which session answers.
SELECT pg_backend_pid()
