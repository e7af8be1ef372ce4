SELECT stanchion.turn_lock($1, $2, $3)
