-- Returns the migrations that were applied to the schema, each with what is noted of its functions.
SELECT m.version, m.checksum, l.functions, l.version, l.oldest
FROM stanchion.migrations m CROSS JOIN stanchion.library l
ORDER BY m.version
