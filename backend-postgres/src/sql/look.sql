SELECT l.epochs, l.members, l.generations, l.nexts, l.ended, l.finished, l.abandoned, l.expired, stanchion.hints()
FROM stanchion.look($1, $2, $3, $4, $5, $6, $7) l
