SELECT a.token, a.weight, a.epoch, stanchion.hints() FROM stanchion.attach($1, $2, $3, $4, $5, $6, $7, $8) a
