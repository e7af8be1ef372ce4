-- bloom_begin: begins pages that an insert will need, so that no single call of a script makes very
-- many.
--
-- It does nothing if the insert would be refused: the insert itself will say why. Nor does it if
-- the insert was answered already: a late copy makes no filter.
--
-- ARGV     behind the first two: lane, number of the request, generation and end that are known, a
--          fresh generation, terms
-- Returns  {}
-- Complexity  O(bytes of the pages).
-- Retry    begins the pages that are left.

return run(0, function(o, at, list)
  load(o, 'a' .. ARGV[at])
  look(o, list)
  if o.memory and tonumber(string.match(o.memory, '^%d+')) >= tonumber(ARGV[at + 1]) then return {} end
  if missing(o, ARGV[at + 2], ARGV[at + 3]) or (o.terms and o.terms ~= ARGV[at + 5]) then return {} end
  if not o.terms then open(o, ARGV[at + 4], ARGV[at + 5]) end
  found(o, o.pages)
  return {}
end)
