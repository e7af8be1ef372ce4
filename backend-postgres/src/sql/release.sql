SELECT r.kept, stanchion.hints() FROM stanchion.release($1, $2, $3, $4, $5, $6, $7, $8, $9) r
