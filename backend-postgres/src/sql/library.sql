-- Notes whose functions the schema has.
INSERT INTO stanchion.library (functions, version, oldest) VALUES (decode('{functions}', 'hex'), '{version}', '{oldest}')
ON CONFLICT (is_only) DO UPDATE SET functions = excluded.functions, version = excluded.version, oldest = excluded.oldest;
