-- turn_check: draws the token of a transaction that has a mutex by `turn_lock`.
--
-- It is asked over another connection, once the transaction has locked the mutex: no token that was
-- drawn before then is larger. In session mode every grant takes the advisory lock, and the tokens
-- are those of the sessions.
--
-- Arguments   p_ticket: the hold whose turn it is, or null for a transaction that has had its turn
--             p_backend: the server process of the transaction
-- Returns     a token: from now on no grant finds the advisory lock free
--             -1 the turn has ended before
--             -2 that process does not have the lock in this database
-- Locks       the object
-- Complexity  O(locks of the server)
-- Retry       draws another token
CREATE OR REPLACE FUNCTION stanchion.turn_check(p_namespace text, p_name text, p_ticket uuid, p_backend integer)
RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    o stanchion.objects;
    by_session CONSTANT boolean := 'session' = (
        SELECT n.mutex_mode FROM stanchion.namespaces n WHERE n.namespace = p_namespace);
BEGIN
    PERFORM stanchion.enter();
    o := stanchion.claim(p_namespace, 'm', p_name, NULL);
    IF NOT EXISTS (
        SELECT FROM stanchion.session_holders(p_namespace, p_name) h WHERE h.pid = p_backend AND h.holds)
    THEN
        RETURN -2;
    END IF;
    IF (o.keyed IS NOT TRUE AND NOT by_session) OR (p_ticket IS NOT NULL AND NOT EXISTS (
        SELECT FROM stanchion.holds h
        WHERE h.object + 0 = o.id AND h.ticket = p_ticket AND h.expiry > stanchion.now()))
    THEN
        RETURN -1;
    END IF;
    IF by_session THEN
        RETURN stanchion.session_token();
    END IF;
    o.token := greatest(o.token + 1, stanchion.now());
    UPDATE stanchion.objects x SET token = o.token WHERE x.id = o.id;
    RETURN o.token;
END
$$;
