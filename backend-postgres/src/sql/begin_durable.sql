-- The same where a commit would not wait for the disk.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL statement_timeout = '{limit}';
SET LOCAL lock_timeout = '{limit}';
SET LOCAL idle_in_transaction_session_timeout = '{idle}';
SET LOCAL synchronous_commit = on;
