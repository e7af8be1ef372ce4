-- Takes out what is past its retention time. $1 namespace, $2 how many rows of each kind at most.
SELECT stanchion.sweep_permits($1, $2)::bigint + stanchion.sweep_limits($1, $2)::bigint
    + stanchion.sweep_blooms($1, $2)::bigint
