-- Returns the answers to a batch, in the order of its objects.
SELECT a.codes, a.tokens, a.limits, a.epochs, stanchion.hints()
FROM stanchion.acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) a
