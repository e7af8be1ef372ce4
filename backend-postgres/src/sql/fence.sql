SELECT stanchion.fence($1, $2, $3)
