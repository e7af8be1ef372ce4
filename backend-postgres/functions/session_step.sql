-- Unlocks mutexes of one session, then tries to lock others, without waiting.
--
-- Arguments: the namespace, the names to unlock, the names to try, and whether to check first how full the server's
-- table of locks is. Returns the number of advisory locks and their maximum, or 0 and 0 without the check; then for
-- each name to unlock 1 if it was locked, or 0; then for each name to try its token, or 0 if another session holds it,
-- or -1 if there is no room. The session must not hold a name that it tries: it would be granted a second time.
-- Locks: the advisory locks of the names, none of which it waits for. O(names), and O(locks of the server) with the
-- check. A retry after an error unlocks all names of the failed call first.
CREATE OR REPLACE FUNCTION stanchion.session_step(namespace text, freed text[], wanted text[], looks boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answers bigint[] := ARRAY[0, 0];
    count integer := 2;
    full_up boolean := false;
BEGIN
    FOR i IN 1 .. cardinality(freed) LOOP
        count := count + 1;
        answers[count] := pg_advisory_unlock(stanchion.session_key(namespace, freed[i]))::integer;
    END LOOP;
    IF looks THEN
        answers[1] := (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory');
        answers[2] := current_setting('max_locks_per_transaction')::bigint
            * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint) / 2;
        full_up := answers[1] + cardinality(wanted) > answers[2];
    END IF;
    FOR i IN 1 .. cardinality(wanted) LOOP
        count := count + 1;
        IF full_up THEN
            answers[count] := -1;
        ELSIF pg_try_advisory_lock(stanchion.session_key(namespace, wanted[i])) THEN
            answers[count] := stanchion.session_token();
        ELSE
            answers[count] := 0;
        END IF;
    END LOOP;
    RETURN answers;
END;
$$;
