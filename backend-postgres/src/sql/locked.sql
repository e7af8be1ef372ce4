SELECT l.numbers, l.lockers FROM stanchion.locked($1, $2, $3) l
