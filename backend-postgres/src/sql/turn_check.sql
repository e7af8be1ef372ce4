SELECT stanchion.turn_check($1, $2, $3, $4)
