-- bloom_flags: returns the items of a list as bits: item `i` is bit `i % 8` of byte `i / 8`, the
-- least significant first.
--
-- Arguments   the number of items, counted from 0; the items in the list, null if there are none
-- Returns     the bits
-- Complexity  O(items in the list · bytes)
CREATE OR REPLACE FUNCTION stanchion.bloom_flags(in_count integer, in_items integer[]) RETURNS bytea
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    flags bytea := decode(repeat('00', (in_count + 7) / 8), 'hex');
    item integer;
BEGIN
    IF cardinality(in_items) = in_count THEN
        RETURN decode(repeat('ff', (in_count + 7) / 8), 'hex');
    END IF;
    FOREACH item IN ARRAY coalesce(in_items, '{}') LOOP
        flags := set_bit(flags, item, 1);
    END LOOP;
    RETURN flags;
END
$$;
