-- bloom_begin: begins pages that an insert will need, so that no call of the server makes very many.
--
-- Where the insert would be refused, nothing is done: it will say why. Nor where it was answered already: a late copy makes
-- no filter.
--
-- ARGV     behind the first two: lane, number of the flight, generation and end that are known, a fresh generation, terms
-- Returns  {}
-- Complexity  O(bytes of the pages).
-- Retry    begins those that are left.

return run(0, function(o, at, list)
  load(o, 'a' .. ARGV[at])
  look(o, list)
  if o.memory and tonumber(string.match(o.memory, '^%d+')) >= tonumber(ARGV[at + 1]) then return {} end
  o.lane = nil
  if missing(o, ARGV[at + 2], ARGV[at + 3]) or (o.terms and o.terms ~= ARGV[at + 5]) then return {} end
  if not o.terms then open(o, ARGV[at + 4], ARGV[at + 5]) end
  found(o, o.pages)
  return {}
end)
