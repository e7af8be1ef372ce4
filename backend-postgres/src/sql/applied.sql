-- Returns the migrations that were applied to the schema, each with what is noted of its functions;
-- nulls where that row was lost. How bytes are written does not depend on the session's settings.
--
-- The one row of the library is found by its key: the connections of the library forbid scans of a
-- whole table by a large price, and a statement with that price is compiled first, which takes
-- longer than all the rest of a connect.
SELECT m.version, encode(m.checksum, 'hex'), encode(l.functions, 'hex'), l.version, l.oldest
FROM stanchion.migrations m LEFT JOIN stanchion.library l ON l.is_only
ORDER BY m.version
