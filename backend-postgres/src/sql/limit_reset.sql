SELECT stanchion.limit_reset($1, $2, $3)
