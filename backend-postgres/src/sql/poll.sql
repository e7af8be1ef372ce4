SELECT p.epochs, p.nexts, p.counts, p.ready FROM stanchion.poll($1, $2, $3, $4, $5, $6) p
