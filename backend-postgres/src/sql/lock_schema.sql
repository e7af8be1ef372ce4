-- Lets one transaction at a time migrate a schema. The lock ends with the transaction, so it also
-- works through a pooler. A migration may take longer than a request.
SET LOCAL statement_timeout = '55s';
SET LOCAL lock_timeout = '55s';
-- Nothing is found in a schema that others may write.
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('stanchion.migrations', 0));
