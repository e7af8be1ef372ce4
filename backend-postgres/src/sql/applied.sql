-- Which migrations the schema is made of.
SELECT version, checksum FROM stanchion.migrations ORDER BY version
