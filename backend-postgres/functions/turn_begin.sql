-- turn_begin: returns the facts about the caller's transaction that a mutex for it depends on.
--
-- Arguments   the namespace and the name
-- Returns     is_fresh: whether the transaction sees what others have committed: it is READ
--               COMMITTED
--             backend: the server process if it has the mutex already, or 0
--             patience: the `lock_timeout` of the transaction in ms, or 0 for none
--             slice: for how many ms a request should wait: longer than the server waits before it
--               looks for a circle of waits, and less than its `statement_timeout`
-- Complexity  O(locks of the server)
CREATE OR REPLACE FUNCTION stanchion.turn_begin(
    p_namespace text, p_name text,
    OUT is_fresh boolean, OUT backend integer, OUT patience bigint, OUT slice bigint
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    limited bigint;
BEGIN
    is_fresh := current_setting('transaction_isolation') IN ('read committed', 'read uncommitted');
    backend := CASE WHEN EXISTS (
        SELECT FROM stanchion.session_holders(p_namespace, p_name) h WHERE h.pid = pg_backend_pid() AND h.holds)
        THEN pg_backend_pid() ELSE 0 END;
    patience := extract(epoch FROM current_setting('lock_timeout')::interval) * 1000;
    slice := extract(epoch FROM current_setting('deadlock_timeout')::interval) * 1000 + 500;
    limited := extract(epoch FROM current_setting('statement_timeout')::interval) * 1000;
    IF limited > 0 THEN
        slice := least(slice, greatest(limited * 3 / 4, 1));
    END IF;
END
$$;
