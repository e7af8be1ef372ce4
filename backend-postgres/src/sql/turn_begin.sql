SELECT t.is_fresh, t.backend, t.patience, t.slice FROM stanchion.turn_begin($1, $2) t
