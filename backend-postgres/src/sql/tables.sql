-- Returns whether the schema has the table of migrations, and that of the library.
SELECT pg_catalog.to_regclass('stanchion.migrations') IS NOT NULL, pg_catalog.to_regclass('stanchion.library') IS NOT NULL
