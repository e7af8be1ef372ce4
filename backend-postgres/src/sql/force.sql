SELECT f.freed, stanchion.hints() FROM stanchion.force($1, $2, $3, $4, $5) f (freed)
