-- bloom_mask(n, 1): a page with the bits of these numbers set.
--
-- An aggregate over a function of the server's, without a line of ours for each bit. Its first state, a page of zeros, is
-- too long to be written out.
--
-- Complexity  O(rows)
DO $$
BEGIN
    EXECUTE format(
        'CREATE AGGREGATE stanchion.bloom_mask(integer, integer) (sfunc = pg_catalog.set_bit, stype = bit, initcond = %L)',
        'x' || repeat('0', 4096)
    );
END
$$;
