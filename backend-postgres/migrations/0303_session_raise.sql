-- Raises the sequence of tokens to 10 s past the clock, unless it is `enough` µs past it.
--
-- Why no token comes twice. While tokens are drawn `enough` is 5 s, so that the raise is at least 5,000,000 values ahead of
-- what was last drawn: nobody draws so many between the two statements below, and so it never lowers the sequence.
-- Because fewer than 1,000,000 are drawn in a second, none is ever more than 10 s past the clock of its time.
-- A crash may lose the last raises and draws. It ends all sessions, and with them the era (`session_join`): whoever
-- begins the next one is alone and raises the sequence with an `enough` of 10 s, past all that was handed out before.
--
-- Locks: 'raise', which is given back before the end, because it may run inside a user's transaction. O(1). A retry raises no
-- further than the clock has moved.
CREATE FUNCTION stanchion.session_raise(enough bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    clock bigint;
BEGIN
    BEGIN
        -- In this block, so that no cancel falls between the lock and what gives it back. Where the wait for it was
        -- cancelled there is nothing to give back, and the server says so.
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
