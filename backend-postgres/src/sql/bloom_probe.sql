SELECT p.code, p.generation, p.ends, p.lacking, p.terms
FROM stanchion.bloom_probe($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) p
