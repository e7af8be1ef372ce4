SELECT stanchion.limit_refund($1, $2, $3, $4, $5)
