SELECT stanchion.keep_places($1, $2)
