SELECT CASE WHEN pg_try_advisory_lock(stanchion.session_key($1, $2)) THEN stanchion.session_token() ELSE 0 END
