-- session_lock_in: locks a mutex for the transaction of the caller.
--
-- waits     whether to wait; the settings of the transaction limit the wait
-- is_fresh  whether to refuse a transaction whose snapshot may be older than the lock: one that is not READ COMMITTED
-- Returns   the server process, whose token `session_token_in` draws; 0 if it does not wait and another caller has the mutex;
--           -1 if the transaction is refused.
-- Locks     the advisory lock of the name until the end of the transaction. O(1). A second call in the same transaction
--           is granted again.
CREATE OR REPLACE FUNCTION stanchion.session_lock_in(namespace text, name text, waits boolean, is_fresh boolean)
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF is_fresh AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN -1;
    END IF;
    IF waits THEN
        PERFORM pg_advisory_xact_lock(stanchion.session_key(namespace, name));
    ELSIF NOT pg_try_advisory_xact_lock(stanchion.session_key(namespace, name)) THEN
        RETURN 0;
    END IF;
    RETURN pg_backend_pid();
END
$$;
