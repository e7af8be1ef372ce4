-- Whether the process of this session has sent no statement for 2 s, over any other session; while it waits it sends one
-- more often than each second.
--
-- Returns false where nothing is known, because the server does not track what sessions do or the role may not see it. What
-- came in while the server stood still is not yet counted when it goes on: it has 100 ms to be. Locks: none. O(sessions of
-- the server).
CREATE FUNCTION stanchion.session_is_silent() RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    heard timestamptz;
BEGIN
    IF (SELECT state_change FROM pg_stat_get_activity(pg_backend_pid())) IS NULL THEN
        RETURN false;
    END IF;
    FOR look IN 1 .. 6 LOOP
        PERFORM pg_stat_clear_snapshot();
        heard := (
            SELECT max(state_change) FROM pg_stat_activity
            WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid());
        IF heard > clock_timestamp() - interval '2 s' THEN
            RETURN false;
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RETURN true;
END;
$$;
