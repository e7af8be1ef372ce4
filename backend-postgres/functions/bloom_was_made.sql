-- bloom_was_made: returns whether a page was written since the image was made. If it was and is
-- missing, it is lost (B6).
--
-- Arguments   the image and its `made`, the page
-- Returns     whether it was written; true if the directory itself is lost
-- Complexity  O(log pages)
CREATE OR REPLACE FUNCTION stanchion.bloom_was_made(in_image bigint, in_made bit, in_page integer) RETURNS boolean
LANGUAGE sql STABLE
RETURN (
    SELECT get_bit(in_made, in_page >> 14) = 1 AND coalesce((
        SELECT get_bit(d.bits, in_page & 16383) FROM stanchion.bloom_pages AS d
        WHERE d.image = in_image AND d.page = -1 - (in_page >> 14)
    ), 1) = 1
);
