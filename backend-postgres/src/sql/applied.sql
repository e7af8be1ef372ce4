-- Returns the migrations that were applied to the schema, each with what is noted of its functions.
--
-- The limit tells the planner that there is one row: by its guess for a table that was never analyzed, the join is so large
-- that it is compiled first, which takes longer than all the rest of a connect.
SELECT m.version, m.checksum, l.functions, l.version, l.oldest
FROM stanchion.migrations m CROSS JOIN (SELECT * FROM stanchion.library LIMIT 1) l
ORDER BY m.version
