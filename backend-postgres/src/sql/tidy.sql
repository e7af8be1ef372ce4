SELECT t.more, stanchion.hints() FROM stanchion.tidy($1, $2, $3, $4, $5) t (more)
