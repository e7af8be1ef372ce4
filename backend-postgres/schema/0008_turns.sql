-- Mutexes that users' transactions have in lease mode.

-- A transaction may have the mutex by its advisory lock: a grant tests that lock, and finds it
-- free, before it clears this.
ALTER TABLE stanchion.objects ADD COLUMN keyed boolean NOT NULL DEFAULT false;
