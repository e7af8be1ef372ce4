-- Unlocks mutexes of this session, and returns how many were locked. $1 namespace, $2 names.
SELECT count(*) FILTER (WHERE pg_advisory_unlock(stanchion.session_key($1, name))) FROM unnest($2::text[]) name
