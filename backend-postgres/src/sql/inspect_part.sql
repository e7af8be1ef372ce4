SELECT i.clock, i.lim, i.waiting, i.weight, i.tickets, i.tokens, i.weights, i.granted, i.expiries, i.labels, i.next
FROM stanchion.inspect_part($1, $2, $3, $4, $5, $6) i
