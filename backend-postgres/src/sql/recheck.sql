-- Returns whether the server is a standby, and the mutex mode and the layout of each namespace. What others have locked is not waited
-- for. {namespaces} and {mode} are literals; {layout} is the layout of a new one.
SET LOCAL lock_timeout = '100ms';
SELECT pg_catalog.pg_is_in_recovery() AS standby, n.namespace, o.mutex_mode, o.layout
FROM pg_catalog.unnest(ARRAY[{namespaces}]::text[]) n (namespace)
CROSS JOIN LATERAL stanchion.open_namespace(n.namespace, {mode}, {layout}) o;
