-- Bloom filters: their headers, their bits, and what was answered last.
--
-- Times are ms of this server's clock. Bits are numbered as in `stanchion_core::bloom`; 16384 of them, 2 KiB, are a page.
-- Smaller pages cost more rows a batch, larger ones more to write for each bit.

-- A row for each filter. Whoever changes anything of a filter, here or below, holds the lock of its row.
CREATE TABLE stanchion.bloom_filters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    -- Null where there is no filter: one that was about to be made was refused.
    generation uuid,
    -- "CAPACITY RATE BITS HASHES TTL": the rate as the bits of a double, the time to live `-` if there is none. Nothing
    -- here looks into it. Null while the filter is cleared.
    terms text COLLATE "C",
    -- When it is over; null if never.
    ends bigint,
    -- What its pages are of; null while the filter is cleared.
    image bigint,
    -- Which pages of the directory were written.
    made bit(1024) NOT NULL DEFAULT repeat('0', 1024)::bit(1024),
    -- How many bits are set.
    bits_set bigint NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
) WITH (fillfactor = 50);

CREATE INDEX bloom_filters_ends ON stanchion.bloom_filters (namespace, ends) WHERE ends IS NOT NULL;

-- The bits of a filter from its making, or from when it was cleared, until it ends. A cleared filter gets another one, so
-- that clearing a large filter takes no longer than a small one: the sweep takes the pages out.
CREATE TABLE stanchion.bloom_images (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    is_over boolean NOT NULL DEFAULT false
);

CREATE INDEX bloom_images_over ON stanchion.bloom_images (namespace) WHERE is_over;

-- Pages with at least one bit set. Those of negative number are the directory: bit `n` of page `-1 - d` says that page
-- `16384 * d + n` was written, so that a page that is missing is not taken for one of zeros (B6).
CREATE TABLE stanchion.bloom_pages (
    image bigint NOT NULL,
    page integer NOT NULL,
    bits bit varying NOT NULL,
    PRIMARY KEY (image, page)
) WITH (fillfactor = 75, toast_tuple_target = 8160);

ALTER TABLE stanchion.bloom_pages ALTER COLUMN bits SET STORAGE PLAIN;

-- What the inserts of the last flight of each lane were answered, for at least 60 s. A flight that found nothing new
-- needs no row: to do it again says the same.
CREATE TABLE stanchion.bloom_flights (
    filter bigint NOT NULL,
    lane uuid NOT NULL,
    number bigint NOT NULL,
    answered bigint NOT NULL,
    generation uuid NOT NULL,
    ends bigint,
    -- The items that were new, of each part of the flight; null for a part that was not carried out.
    news bytea[] NOT NULL,
    PRIMARY KEY (filter, lane)
) WITH (toast_tuple_target = 8160);

CREATE INDEX bloom_flights_answered ON stanchion.bloom_flights (answered);

-- The answer to a part of a flight, as `bloom_probe` says.
CREATE TYPE stanchion.bloom_told AS (code "char", generation uuid, ends bigint, lacking bytea, terms text);
