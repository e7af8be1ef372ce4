-- In front of what makes the fences, where no store has made the schema. All in one request, so all or nothing.
--
-- Locks   one at a time: two that make the same schema at once would get in each other's way
-- Retry   what is there stays

SELECT pg_advisory_xact_lock(hashtextextended('stanchion.fences', 0));

DO $$
BEGIN
    -- The name as it stands in front of a table, quoted where it has to be.
    EXECUTE 'CREATE SCHEMA IF NOT EXISTS ' || split_part('stanchion.fences', '.', 1);
END
$$;
