SELECT l.name, l.is_listed, l.holders, l.weight, l.waiting, l.lim, l.idle
FROM stanchion.list_permits($1, $2, $3, $4, $5, $6, $7) l
