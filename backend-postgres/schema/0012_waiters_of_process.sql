-- Waiters by process: a walk that has passed many silent ones goes on at the next one of a live
-- process.
CREATE INDEX waiters_of_process ON stanchion.waiters (object, process, arrival);
