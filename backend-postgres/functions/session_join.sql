-- Joins the sessions that draw tokens. An era lasts while any session holds 'era' shared; a crash ends it. The session
-- that begins an era first raises the sequence past all tokens that may have been handed out before; no other session
-- draws then.
--
-- Argument: true to join for the session, false for the current transaction only.
-- Locks: 'gate', then 'era', then 'raise'; 'gate' is released before the end. No session holds 'era' exclusively
-- without 'gate', so a refusal of 'era' means that an era has begun. O(1). A retry joins once more, which is harmless.
CREATE OR REPLACE FUNCTION stanchion.session_join(for_session boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    era constant bigint := stanchion.session_mark('era');
    alone boolean := false;
BEGIN
    BEGIN
        -- In this block for the same reason as in `session_raise`.
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
