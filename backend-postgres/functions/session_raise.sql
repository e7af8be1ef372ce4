-- Raises the sequence of tokens to 10 s past the clock, unless it is `enough` µs past the clock.
--
-- Why no token is drawn twice: while tokens are drawn, `enough` is 5 s, so the raise is at least 5,000,000 values ahead
-- of the last token. No sessions draw so many between the two statements below, so the raise never lowers the sequence.
-- Fewer than 1,000,000 tokens are drawn in a second, so no token is ever more than 10 s past the clock of its time.
-- A crash may lose the last raises and draws. It ends all sessions, and with them the era (`session_join`). The session
-- that begins the next era is alone, and raises the sequence with an `enough` of 10 s, past all earlier tokens.
--
-- Locks: 'raise', which is released before the end, because the function may run inside a user's transaction. O(1). A
-- retry raises the sequence no further than the clock has moved.
CREATE OR REPLACE FUNCTION stanchion.session_raise(enough bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    clock bigint;
BEGIN
    BEGIN
        -- In this block, so that no cancel falls between the lock and its release. If the wait for the lock was
        -- cancelled, there is nothing to release, and the server warns.
        PERFORM pg_advisory_lock(stanchion.session_mark('raise'));
        clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
        IF (SELECT last_value FROM stanchion.session_tokens) < clock + enough THEN
            PERFORM setval('stanchion.session_tokens', clock + 10000000);
        END IF;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        PERFORM pg_advisory_unlock(stanchion.session_mark('raise'));
        RAISE;
    END;
    PERFORM pg_advisory_unlock(stanchion.session_mark('raise'));
END;
$$;
