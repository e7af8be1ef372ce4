-- Makes the schema, before the SQL of the fences, in a database where no store has made it. All of
-- it is one request, so all of it succeeds or nothing.
--
-- Locks   as a store that makes the schema: two that make it concurrently would fail
-- Retry   keeps what exists

-- Nothing is looked for in a schema that others may write. The setting of the transaction stays as
-- it is: it may be the user's.
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('stanchion.migrations', 0));

DO $$
BEGIN
    -- The name as it is written before a table, quoted if necessary.
    EXECUTE 'CREATE SCHEMA IF NOT EXISTS ' || pg_catalog.split_part('stanchion.fences', '.', 1);
END
$$;
