-- The tables of Bloom filters: their headers, their bits, and their last answers.
--
-- Times are ms of this server's clock. Bits are numbered as in `stanchion_core::bloom`. A page has
-- 16384 bits, 2 KiB. Smaller pages would take more rows for a batch; larger ones, more to write for
-- each bit.

-- One row for each filter. A transaction that changes any row of a filter, here or below, holds the
-- lock of this row.
CREATE TABLE stanchion.bloom_filters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Null if there is no filter: a filter that was to be made was refused.
    generation uuid,
    -- "CAPACITY RATE BITS HASHES TTL": the rate as the bits of a double, the time to live in ms, or
    -- `-` if there is none. No function reads its parts. Null while the filter is cleared.
    terms text COLLATE "C",
    -- When the filter ends; null if never.
    ends bigint,
    -- The image that the pages belong to; null while the filter is cleared.
    image bigint,
    -- The pages of the directory that were written.
    made bit(1024) NOT NULL DEFAULT repeat('0', 1024)::bit(1024),
    -- Number of set bits.
    bits_set bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) WITH (fillfactor = 50);

CREATE INDEX bloom_filters_ends ON stanchion.bloom_filters (namespace, ends) WHERE ends IS NOT NULL;

-- An image is the bits of a filter, from when it was made or cleared until it ends. A cleared
-- filter gets another image, so that clearing a large filter takes no longer than clearing a small
-- one: the sweep removes the pages.
CREATE TABLE stanchion.bloom_images (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    is_over boolean NOT NULL DEFAULT false
);

CREATE INDEX bloom_images_over ON stanchion.bloom_images (namespace) WHERE is_over;

-- Pages with at least one set bit. Pages with a negative number are the directory: bit `n` of page
-- `-1 - d` says that page `16384 * d + n` was written, so that a missing page is not taken for a
-- page of zeros (B6).
CREATE TABLE stanchion.bloom_pages (
    image bigint NOT NULL,
    page integer NOT NULL,
    bits bit varying NOT NULL,
    PRIMARY KEY (image, page)
) WITH (fillfactor = 75, toast_tuple_target = 8160);

ALTER TABLE stanchion.bloom_pages ALTER COLUMN bits SET STORAGE PLAIN;

-- The answers to the inserts of the last request of each lane, for at least 60 s. A request that
-- found no new item needs no row: the same request again gets the same answers.
CREATE TABLE stanchion.bloom_flights (
    filter bigint NOT NULL,
    lane uuid NOT NULL,
    number bigint NOT NULL,
    answered bigint NOT NULL,
    generation uuid NOT NULL,
    ends bigint,
    -- The new items of each part of the request; null for a part that was not executed.
    news bytea[] NOT NULL,
    PRIMARY KEY (filter, lane)
) WITH (toast_tuple_target = 8160);

CREATE INDEX bloom_flights_answered ON stanchion.bloom_flights (answered);

-- The answer to a part of a request, as `bloom_probe` describes it.
CREATE TYPE stanchion.bloom_told AS (code "char", generation uuid, ends bigint, lacking bytea, terms text);
