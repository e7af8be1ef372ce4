SELECT stanchion.session_lock_in($1, $2, $3, $4)
