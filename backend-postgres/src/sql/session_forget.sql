SELECT stanchion.session_forget($1, $2, $3)
