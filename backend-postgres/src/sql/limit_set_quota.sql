SELECT stanchion.limit_set_quota($1, $2, $3, $4, $5, $6)
