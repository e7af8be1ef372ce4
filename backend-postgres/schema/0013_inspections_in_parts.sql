-- A function that returned all holds of an object in one statement, and one that took the silence
-- of the server for that of the waiters.
DROP FUNCTION IF EXISTS stanchion.inspect(text, bigint, text, text);
DROP FUNCTION IF EXISTS stanchion.waiting_now(text, bigint, bigint, bigint, integer);
