SELECT i.clock, i.lim, i.waiting, i.tickets, i.tokens, i.weights, i.granted, i.expiries, i.labels
FROM stanchion.inspect($1, $2, $3, $4) i
