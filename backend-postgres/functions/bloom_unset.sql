-- bloom_unset: returns which of some bits are not set, and whether a page that was written is
-- missing.
--
-- Plain SQL, so that the planner can inline it into the calling statement.
--
-- Arguments   the image and its `made`; pages; the index of the last pair of each page; pairs, each
--             `item * 16384 + bit of the page`, page by page; the first and the last page to look
--             at
-- Returns     a row for each bit that is not set: its page and pair, whether the page is absent,
--             whether it was lost
-- Complexity  O(pairs); O(log pages) for each page
CREATE OR REPLACE FUNCTION stanchion.bloom_unset(
    in_image bigint, in_made bit, in_pages integer[], in_upto integer[], in_pairs integer[], in_first integer,
    in_last integer
) RETURNS TABLE (page integer, pair integer, absent boolean, lost boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT in_pages[r.run], in_pairs[x.place], p.bits IS NULL, a.lost
    FROM generate_series(in_first, in_last) AS r (run)
    LEFT JOIN LATERAL (
        SELECT q.bits FROM stanchion.bloom_pages AS q WHERE q.image = in_image AND q.page = in_pages[r.run]
        -- Makes the planner use the index for each page, even if it expects few pages.
        LIMIT 1
    ) AS p ON true
    CROSS JOIN LATERAL (
        SELECT p.bits IS NULL AND stanchion.bloom_was_made(in_image, in_made, in_pages[r.run]) AS lost
        -- Evaluated once for each page, not for each of its bits.
        OFFSET 0
    ) AS a
    CROSS JOIN LATERAL generate_series(
        CASE WHEN r.run = 1 THEN 1 ELSE in_upto[r.run - 1] + 1 END, in_upto[r.run]
    ) AS x (place)
    WHERE p.bits IS NULL OR get_bit(p.bits, in_pairs[x.place] & 16383) = 0;
END;
