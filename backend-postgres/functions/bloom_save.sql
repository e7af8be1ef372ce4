-- bloom_save: writes a filter's row.
--
-- Arguments   a locked row as it is now
-- Complexity  O(1)
CREATE OR REPLACE FUNCTION stanchion.bloom_save(in_filter stanchion.bloom_filters) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    UPDATE stanchion.bloom_filters AS b
    SET generation = in_filter.generation, terms = in_filter.terms, ends = in_filter.ends, image = in_filter.image,
        made = in_filter.made, bits_set = in_filter.bits_set
    WHERE b.id = in_filter.id;
END;
