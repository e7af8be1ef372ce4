SELECT stanchion.session_step($1, $2, $3, $4)
