SELECT r.kept, stanchion.hints() FROM stanchion.renew($1, $2, $3, $4, $5, $6, $7) r
