-- Lets one transaction at a time migrate a schema. The lock ends with the transaction, so it also works through a
-- pooler. A migration may take longer than a request.
SET LOCAL statement_timeout = '55s';
SET LOCAL lock_timeout = '55s';
SELECT pg_advisory_xact_lock(hashtextextended('stanchion.migrations', 0));
