SELECT m.code, m.generation, m.ends, m.terms FROM stanchion.bloom_merge($1, $2, $3, $4, $5, $6, $7, $8, $9) m
