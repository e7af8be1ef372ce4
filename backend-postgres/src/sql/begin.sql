-- Begins a transaction in a session that cannot be set up, behind a pooler.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL statement_timeout = '{timeout}';
SET LOCAL lock_timeout = '{lock}';
SET LOCAL idle_in_transaction_session_timeout = '{idle}';
