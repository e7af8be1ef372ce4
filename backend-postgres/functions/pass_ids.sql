-- pass_ids: has a table number its rows beyond those that are there.
--
-- Rows can come without what numbers them: by logical replication, or by a restore of the data
-- alone. Then the next rows get numbers that others have.
--
-- Arguments   the name of a table whose `id` the server numbers
-- Complexity  O(log rows)
-- Retry       changes nothing more
CREATE OR REPLACE FUNCTION stanchion.pass_ids(p_table text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    counter CONSTANT text := pg_get_serial_sequence('stanchion.' || p_table, 'id');
    last bigint;
BEGIN
    EXECUTE format('SELECT max(t.id) FROM stanchion.%I t', p_table) INTO last;
    PERFORM setval(counter, greatest(last, nextval(counter)));
END
$$;
