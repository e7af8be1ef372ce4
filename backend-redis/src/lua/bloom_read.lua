-- bloom_read: reads a piece of one page.
--
-- ARGV     behind the first two: generation and end that are known, number of the first byte in the
--          page, how many
-- Returns  {0, bytes}, none if the page was not begun   {1} no filter, or a cleared one   {2} lost
-- Complexity  O(bytes).
-- Retry    reads again.

return run(0, function(o, at, list)
  load(o, 'a')
  look(o, list)
  local page, first = o.pages[1], tonumber(ARGV[at + 2])
  if page.gone or missing(o, ARGV[at], ARGV[at + 1]) then return { 2 } end
  if not o.terms then return { 1 } end
  return { 0, page.begun and call('GETRANGE', page.key, first, first + ARGV[at + 3] - 1) or '' }
end)
