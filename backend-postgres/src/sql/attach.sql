SELECT a.token, a.weight, a.born FROM stanchion.attach($1, $2, $3, $4, $5, $6, $7, $8) a
