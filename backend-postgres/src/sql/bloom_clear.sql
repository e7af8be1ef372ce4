SELECT c.generation, c.ends FROM stanchion.bloom_clear($1, $2, $3) c
