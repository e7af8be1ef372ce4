SELECT l.name, l.is_listed, l.capacity FROM stanchion.list_blooms($1, $2, $3, $4, $5) l
