SELECT stanchion.session_leave($1, $2, $3, $4, $5, $6, $7), stanchion.hints()
