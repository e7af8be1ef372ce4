-- Answers requests to give up mutexes: $1 accepted, $2 declined.
WITH accepted AS (DELETE FROM stanchion.session_evictions WHERE id = ANY ($1))
UPDATE stanchion.session_evictions SET declined = true WHERE id = ANY ($2)
