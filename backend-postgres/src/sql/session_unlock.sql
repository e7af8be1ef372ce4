SELECT count(*) FILTER (WHERE pg_advisory_unlock(stanchion.session_key($1, name))) FROM unnest($2::text[]) name
