-- Returns whether a session of the same server has no statement: what was sent over its connection
-- has not arrived, or its answer has not. One that ended a moment ago may still be answering.
--
-- $1  process id of the session
SELECT NOT EXISTS (
    SELECT FROM pg_catalog.pg_stat_activity a
    WHERE a.pid = $1
        AND (a.state IS NULL OR a.state NOT LIKE 'idle%' OR a.state_change > clock_timestamp() - interval '100 ms'))
