-- bloom_begin: begins pages that an insert will need, so that no call of the server makes very many.
--
-- Where the insert would be refused, nothing is done: it will say why.
--
-- ARGV     behind the first two: generation and end that are known, a fresh generation, terms
-- Returns  {}
-- Complexity  O(bytes of the pages).
-- Retry    begins those that are left.

return run(0, function(o, at, list)
  load(o, 'a')
  look(o, list)
  if missing(o, ARGV[at], ARGV[at + 1]) or (o.terms and o.terms ~= ARGV[at + 3]) then return {} end
  if not o.terms then open(o, ARGV[at + 2], ARGV[at + 3]) end
  found(o, o.pages)
  return {}
end)
