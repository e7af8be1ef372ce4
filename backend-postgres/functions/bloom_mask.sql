-- bloom_mask(n, 1): returns a page in which the bits with these numbers are set.
--
-- It is an aggregate over a function of the server, without a line of PL/pgSQL for each bit. Its
-- first state, a page of zeros, is too long to be written out.
--
-- Complexity  O(rows)
DO $$
BEGIN
    EXECUTE format(
        'CREATE OR REPLACE AGGREGATE stanchion.bloom_mask(integer, integer) (sfunc = pg_catalog.set_bit, stype = bit, initcond = %L)',
        'x' || repeat('0', 4096)
    );
END
$$;
