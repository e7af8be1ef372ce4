SELECT stanchion.tell($1, $2)
