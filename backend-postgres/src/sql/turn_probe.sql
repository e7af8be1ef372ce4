SELECT stanchion.turn_probe($1, $2, $3)
