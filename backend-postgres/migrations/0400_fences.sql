-- Fences: the resource's side of fencing (M9), a row for each resource.
--
-- A row says which token was the largest that wrote, and whose it was. It never expires by itself: with it goes the
-- protection, so delete one only when no holder that ever wrote can still be running.
CREATE TABLE IF NOT EXISTS stanchion.fences (
    resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    ticket uuid NOT NULL
) WITH (fillfactor = 70);
