-- One round trip.
SELECT 1
