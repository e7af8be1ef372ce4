-- Returns the migrations that were applied to the schema, each with what is noted of its functions.
--
-- The one row of the library is found by its key: the connections of the library forbid scans of a
-- whole table by a large price, and a statement with that price is compiled first, which takes
-- longer than all the rest of a connect.
SELECT m.version, m.checksum, l.functions, l.version, l.oldest
FROM stanchion.migrations m CROSS JOIN stanchion.library l
WHERE l.is_only
ORDER BY m.version
