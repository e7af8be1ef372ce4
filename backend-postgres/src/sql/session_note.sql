SELECT stanchion.session_note($1, $2, $3, $4, $5, $6, $7)
