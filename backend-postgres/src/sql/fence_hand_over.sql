SELECT stanchion.fence_hand_over($1, $2, $3)
