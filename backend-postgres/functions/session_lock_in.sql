-- Locks a mutex for the current transaction.
--
-- Arguments: the namespace, the name, and whether to wait. Returns the token, or 0 if it does not wait and another
-- session holds the mutex. Locks: those of `session_join`, then the advisory lock of the name until the end of the
-- transaction.
-- O(1). A second call in the same transaction is granted again, with a larger token.
CREATE OR REPLACE FUNCTION stanchion.session_lock_in(namespace text, name text, waits boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stanchion.session_join(false);
    IF waits THEN
        PERFORM pg_advisory_xact_lock(stanchion.session_key(namespace, name));
    ELSIF NOT pg_try_advisory_xact_lock(stanchion.session_key(namespace, name)) THEN
        RETURN 0;
    END IF;
    RETURN stanchion.session_token();
END;
$$;
