SELECT f.freed, f.before, f.next, stanchion.hints() FROM stanchion.force($1, $2, $3, $4, $5, $6, $7) f
