SELECT stanchion.hints() FROM stanchion.cancel($1, $2, $3, $4, $5, $6, $7)
