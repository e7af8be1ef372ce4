SELECT f.unlocked, f.process, f.ticket FROM stanchion.session_free($1, $2, $3, $4) f
