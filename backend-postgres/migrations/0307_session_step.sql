-- Unlocks and tries to lock mutexes of one session, without waiting; the unlocks come first.
--
-- Arguments: the namespace, the names to unlock, the names to try, and whether to look first how full the server's table of
-- locks is. Returns how many advisory locks it saw and how many there may be, or 0 and 0; then for each name to unlock 1
-- if it was locked, or 0; then for each to try its token, or 0 where somebody else holds it, or -1 where there is no room.
-- The session must not hold a name that it tries: it would be granted a second time.
-- Locks: the advisory locks of the names, none of which it waits for. O(names), and O(locks of the server) with the look.
-- A retry after an error unlocks all names of the failed call first.
CREATE FUNCTION stanchion.session_step(namespace text, freed text[], wanted text[], looks boolean) RETURNS bigint[]
LANGUAGE plpgsql AS $$
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
