SELECT stanchion.force($1, $2, $3, $4, $5)
