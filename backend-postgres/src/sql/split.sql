SELECT s.done, stanchion.hints() FROM stanchion.split($1, $2, $3, $4, $5, $6, $7) s (done)
