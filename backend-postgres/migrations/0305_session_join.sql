-- Joins those who draw tokens: an era lasts while somebody holds 'era' shared, and a crash ends it. Whoever begins one
-- first raises the sequence past all that may have been handed out before; nobody else draws then.
--
-- Argument: whether for the session, or for the transaction under way only.
-- Locks: 'gate', then 'era', then 'raise'; 'gate' is given back before the end. Nobody holds 'era' exclusively without
-- 'gate', so that a refusal of it says that an era is on. O(1). A retry joins once more, which is harmless.
CREATE FUNCTION stanchion.session_join(for_session boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    era constant bigint := stanchion.session_mark('era');
    alone boolean := false;
BEGIN
    BEGIN
        -- In this block, as in `session_raise`.
        PERFORM pg_advisory_lock(stanchion.session_mark('gate'));
        alone := pg_try_advisory_lock(era);
        IF alone THEN
            PERFORM stanchion.session_raise(10000000);
        END IF;
        IF for_session THEN
            PERFORM pg_advisory_lock_shared(era);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(era);
        END IF;
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        IF alone THEN
            PERFORM pg_advisory_unlock(era);
        END IF;
        PERFORM pg_advisory_unlock(stanchion.session_mark('gate'));
        RAISE;
    END;
    IF alone THEN
        PERFORM pg_advisory_unlock(era);
    END IF;
    PERFORM pg_advisory_unlock(stanchion.session_mark('gate'));
END;
$$;
