-- Returns whether the schema has the table of migrations, and that of the library.
SELECT to_regclass('stanchion.migrations') IS NOT NULL, to_regclass('stanchion.library') IS NOT NULL
