WITH
    obeyed AS (DELETE FROM stanchion.session_evictions WHERE id = ANY ($3)),
    declined AS (UPDATE stanchion.session_evictions SET declined = true WHERE id = ANY ($4))
SELECT
    asked.ids,
    asked.names,
    asked.tokens,
    (SELECT array_agg(pid) FROM unnest($2::integer[]) pid WHERE NOT EXISTS (
        SELECT FROM pg_stat_get_activity(pid) s WHERE s.application_name = current_setting('application_name')))
FROM (
    SELECT array_agg(id) AS ids, array_agg(name) AS names, array_agg(token) AS tokens
    FROM stanchion.session_evictions
    WHERE pid = pg_backend_pid() AND namespace = $1 AND NOT declined AND id <> ALL ($3) AND id <> ALL ($4)) asked
