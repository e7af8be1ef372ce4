SELECT
    (SELECT array_agg(name) FROM stanchion.session_evictions
        WHERE pid = pg_backend_pid() AND namespace = $1 AND asked > clock_timestamp() - interval '5 s'),
    (SELECT array_agg(pid) FROM unnest($2::integer[]) pid WHERE NOT EXISTS (SELECT FROM pg_stat_get_activity(pid)))
