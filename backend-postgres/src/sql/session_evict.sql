SELECT stanchion.session_evict($1, $2, $3, $4)
