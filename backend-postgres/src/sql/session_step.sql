SELECT s.answers, s.heads, s.processes, s.tickets, s.lefts FROM stanchion.session_step($1, $2, $3, $4, $5, $6, $7, $8) s
