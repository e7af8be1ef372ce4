SELECT f.unlocked, f.process, f.ticket, f.is_left FROM stanchion.session_free($1, $2, $3, $4) f
