SELECT stanchion.session_token_in($1, $2, $3)
