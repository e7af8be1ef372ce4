SELECT l.name, l.is_listed, l.clock, l.amount, l.period, l.burst, l.tokens, l.fraction, l.last
FROM stanchion.list_limiters($1, $2, $3, $4, $5) l
