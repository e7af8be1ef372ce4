-- The rows of these tables change with each step, and the tables are small: autovacuum comes after
-- a number of dead rows, not after a part of the table.
ALTER TABLE stanchion.objects SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.holds SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.waiters SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.tombstones SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.limiters SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.limit_tickets SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE stanchion.limit_answers SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
