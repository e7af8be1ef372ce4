SELECT r.code, r.terms, r.pages, r.bytes FROM stanchion.bloom_read($1, $2, $3, $4, $5, $6) r
