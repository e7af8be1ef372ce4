SELECT stanchion.session_end($1, $2, $3)
