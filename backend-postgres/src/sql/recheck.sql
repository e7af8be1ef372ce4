-- Returns whether the server is a standby, the oldest version of the library that works with the
-- schema, and the mutex mode and the layout of each namespace; one row with nulls if none is asked
-- about. What others have locked is not waited for. {namespaces}
-- and {mode} are literals; {layout} is the layout of a new one.
SET LOCAL lock_timeout = '100ms';
SELECT pg_catalog.pg_is_in_recovery() AS standby, l.oldest, n.namespace, o.mutex_mode, o.layout
FROM (SELECT) always
LEFT JOIN stanchion.library l ON true
LEFT JOIN pg_catalog.unnest(ARRAY[{namespaces}]::text[]) n (namespace) ON true
LEFT JOIN LATERAL stanchion.open_namespace(n.namespace, {mode}, {layout}) o ON n.namespace IS NOT NULL;
