-- Fences: the resource's side of fencing (M9), one row for each resource.
--
-- A row contains the largest token that wrote, and its ticket. It never expires: without it there
-- is no protection, so delete it only if no holder that ever wrote can still be running.
CREATE TABLE IF NOT EXISTS stanchion.fences (
    resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 512),
    token bigint NOT NULL CHECK (token BETWEEN 0 AND 9007199254740991),
    ticket uuid NOT NULL
) WITH (fillfactor = 70);
