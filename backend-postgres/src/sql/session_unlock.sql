SELECT pg_advisory_unlock(stanchion.session_key($1, $2))
