-- bloom_write: sets bits that are not set.
--
-- Arguments   a locked row whose image is there; pages, distinct; for each page, the bits to set,
--             none of which is set yet, and whether the page is absent
-- Returns     the row as it is then; the row itself is not written
-- Complexity  O(log pages) for each page, which is written once
CREATE OR REPLACE FUNCTION stanchion.bloom_write(
    in_filter stanchion.bloom_filters, in_pages integer[], in_masks bit varying[], in_absent boolean[]
) RETURNS stanchion.bloom_filters
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp VOLATILE
AS $$
DECLARE
    f stanchion.bloom_filters := in_filter;
    folder integer;
BEGIN
    -- An insert finds each page by the index, even if the planner expects few pages; an update
    -- could read all of them.
    INSERT INTO stanchion.bloom_pages AS p (image, page, bits)
    SELECT f.image, m.page, m.mask FROM unnest(in_pages, in_masks) AS m (page, mask)
    ON CONFLICT ON CONSTRAINT bloom_pages_pkey DO UPDATE SET bits = p.bits | EXCLUDED.bits;
    IF true = ANY (in_absent) THEN
        FOR folder IN
            INSERT INTO stanchion.bloom_pages AS d (image, page, bits)
            SELECT f.image, -1 - (m.page >> 14), stanchion.bloom_mask(m.page & 16383, 1)
            FROM unnest(in_pages, in_absent) AS m (page, absent)
            WHERE m.absent
            GROUP BY m.page >> 14
            ON CONFLICT ON CONSTRAINT bloom_pages_pkey DO UPDATE SET bits = d.bits | EXCLUDED.bits
            RETURNING -1 - d.page
        LOOP
            f.made := set_bit(f.made, folder, 1);
        END LOOP;
    END IF;
    f.bits_set := f.bits_set + (SELECT coalesce(sum(bit_count(m.mask)), 0) FROM unnest(in_masks) AS m (mask));
    RETURN f;
END
$$;
