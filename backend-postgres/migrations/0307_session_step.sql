-- Unlocks and tries to lock mutexes of one session, without waiting; the unlocks come first.
--
-- Arguments: the namespace, the names to unlock, the names to try, and whether to look first how full the server's table of
-- locks is. Returns for each name to unlock whether it was locked; for each to try its token, or 0 where somebody else
-- holds it, or -1 where the table is more than half full; and what was counted there, or -1.
-- The session must not hold a name that it tries: it would be granted a second time.
-- Locks: the advisory locks of the names, none of which it waits for. O(names), and O(locks of the server) with the look.
-- A retry after an error unlocks all names of the failed call first.
CREATE FUNCTION stanchion.session_step(namespace text, freed text[], wanted text[], looks boolean,
    OUT unlocked boolean[], OUT tokens bigint[], OUT locks bigint, OUT room bigint)
LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY freed LOOP
        unlocked := unlocked || pg_advisory_unlock(stanchion.session_key(namespace, name));
    END LOOP;
    locks := -1;
    room := 0;
    IF looks THEN
        SELECT count(*) INTO locks FROM pg_locks WHERE locktype = 'advisory';
        room := current_setting('max_locks_per_transaction')::bigint
            * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) / 2;
    END IF;
    FOREACH name IN ARRAY wanted LOOP
        tokens := tokens || CASE
            WHEN looks AND locks >= room THEN -1
            WHEN pg_try_advisory_lock(stanchion.session_key(namespace, name)) THEN stanchion.session_token()
            ELSE 0
        END;
    END LOOP;
END;
$$;
