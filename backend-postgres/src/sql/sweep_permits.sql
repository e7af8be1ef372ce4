-- $1 namespace, $2 maximum number of rows of each kind.
SELECT stanchion.sweep_permits($1, $2)::bigint
