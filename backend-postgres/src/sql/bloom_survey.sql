SELECT s.code, s.generation, s.ends, s.terms, s.bits_set FROM stanchion.bloom_survey($1, $2, $3, $4) s
