SELECT p.epochs, p.nexts, p.firsts, p.counts, p.ready, stanchion.hints() FROM stanchion.poll($1, $2, $3, $4, $5, $6) p
