-- Returns the migrations that were applied to the schema.
SELECT version, checksum FROM stanchion.migrations ORDER BY version
