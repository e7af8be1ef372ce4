SELECT stanchion.hints() FROM stanchion.resize($1, $2, $3, $4, $5)
