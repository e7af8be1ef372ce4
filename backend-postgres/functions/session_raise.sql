-- session_raise: raises the sequence of tokens to 1 ms past the clock, if it is not past the clock.
--
-- Why no token is drawn twice: one call at a time reads and sets the sequence, and only if it is
-- behind the clock. Tokens that others draw meanwhile and use are past the clock, so that there are
-- few of them, and the sequence is never set below the last one. A crash may lose the last raises
-- and draws. The tokens that were drawn before it are at most 1 ms, and the number of draws in it,
-- past the clock of their time; the first draw after it raises the sequence past the clock anew.
--
-- Returns     the next token
-- Locks       'raise', for the length of this call: a statement may draw for many names, and others
--             do not wait for its end
-- Complexity  O(1)
-- Retry       draws another token
CREATE OR REPLACE FUNCTION stanchion.session_raise() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ahead CONSTANT bigint := 1000;
    clock bigint;
BEGIN
    -- Nobody has to wait for the disk with 'raise' locked.
    PERFORM set_config('synchronous_commit', 'off', true);
    BEGIN
        PERFORM pg_advisory_xact_lock(stanchion.session_mark('raise'));
        -- Not by a query: where sequential scans are off, the server would compile it anew each
        -- time, for longer than 1 ms.
        clock := stanchion.now();
        IF coalesce(pg_sequence_last_value('stanchion.session_tokens'), 0) <= clock THEN
            -- Those who draw meanwhile get tokens that are not past this time, and draw again.
            PERFORM setval('stanchion.session_tokens', clock + ahead);
        END IF;
        -- It gives the lock back; the sequence keeps its value.
        RAISE SQLSTATE 'STT01';
    EXCEPTION WHEN SQLSTATE 'STT01' THEN
        NULL;
    END;
    RETURN nextval('stanchion.session_tokens');
END
$$;
