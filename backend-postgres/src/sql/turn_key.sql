SELECT stanchion.turn_key($1, $2, $3)
