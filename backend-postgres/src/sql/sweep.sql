-- Removes rows whose retention is over. $1 namespace, $2 maximum number of rows of each kind.
SELECT stanchion.sweep_permits($1, $2)::bigint + stanchion.sweep_limits($1, $2)::bigint
    + stanchion.sweep_blooms($1, $2)::bigint
