-- Notes whose functions the schema has. Behind their checksum stand those of other builds of the
-- same version that they have replaced, the last 8, so that two builds do not replace each other's
-- in turn.
INSERT INTO stanchion.library AS l (functions, version, oldest)
VALUES (decode('{functions}', 'hex'), '{version}', '{oldest}')
ON CONFLICT (is_only) DO UPDATE SET version = excluded.version, oldest = excluded.oldest,
    functions = excluded.functions || CASE WHEN l.version = excluded.version
        THEN substring(l.functions FROM 1 FOR 8 * length(excluded.functions)) ELSE '' END;
