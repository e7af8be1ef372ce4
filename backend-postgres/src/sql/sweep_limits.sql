SELECT stanchion.sweep_limits($1, $2)
