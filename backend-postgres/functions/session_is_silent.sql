-- Returns whether the process of this session has sent no statement for 2 s in any other session. While a live process
-- waits, it sends one more often than once a second.
--
-- Returns false if that is unknown, because the server does not track activity or the role may not see it. Statements
-- that arrived while the server was stopped are not counted at once when it resumes: the function gives them 100 ms.
-- Locks: none.
-- O(sessions of the server).
CREATE OR REPLACE FUNCTION stanchion.session_is_silent() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
