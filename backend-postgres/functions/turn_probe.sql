-- turn_probe: waits for a mutex in the transaction of a caller whose turn it is not yet, and locks
-- nothing: so that the server sees a circle of waits through transactions that have the mutex, and
-- the session is not idle.
--
-- Arguments   p_time: how long to wait, in ms
-- Locks       none that lasts: the advisory lock of the name for a moment, shared
-- Complexity  O(1)
-- Retry       waits again
CREATE OR REPLACE FUNCTION stanchion.turn_probe(p_namespace text, p_name text, p_time bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- A lock session waits for nothing, so that no circle leads through it; and the mutex, once it
    -- is unlocked, is the first waiter's, who would find it taken by this.
    IF EXISTS (
        SELECT FROM stanchion.session_holders(p_namespace, p_name) h
        WHERE h.holds AND h.application ~ ' lock [0-9a-f]{32}$')
    THEN
        RETURN;
    END IF;
    PERFORM set_config('lock_timeout', p_time::text, true);
    PERFORM pg_advisory_xact_lock_shared(stanchion.session_key(p_namespace, p_name));
    -- Takes back the lock and the setting.
    RAISE EXCEPTION USING ERRCODE = 'STT01', MESSAGE = 'the mutex is not held by a transaction';
EXCEPTION WHEN lock_not_available OR SQLSTATE 'STT01' THEN
    RETURN;
END
$$;
