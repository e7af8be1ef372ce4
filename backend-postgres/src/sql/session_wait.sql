SELECT stanchion.session_wait($1, $2, $3)
