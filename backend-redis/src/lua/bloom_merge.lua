-- bloom_merge: sets the bits that are set in a piece of one page. Without a page it only creates
-- the filter's record.
--
-- KEYS     last: `bt:NAME`, a temporary key for the piece, for BITOP
-- ARGV     3 known generation   4 known end   5 a fresh generation   6 terms   7 number of the
--          first byte in the page
--          8 bytes
-- Returns  {0, generation, ends}   {1, terms} the terms in force, which differ   {2} lost
-- Complexity  O(bytes of the page).
-- Retry    sets the same bits again, which changes nothing.

return run(1, function(o, at, list)
  local terms, first, bytes = ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local other = KEYS[o.k + 2 + #list]
  load(o, 'a')
  look(o, list)
  local page = o.pages[1]
  if missing(o, ARGV[at], ARGV[at + 1]) then return { 2 } end
  if o.terms and o.terms ~= terms then return { 1, o.terms } end
  if page and page.gone then return { 2 } end
  local left = call('STRLEN', other)
  if not o.terms then open(o, ARGV[at + 2], terms) end
  found(o, o.pages)
  if page then
    if left > 0 then call('DEL', other) end
    local last = first + #bytes - 1
    local before = call('BITCOUNT', page.key, first, last)
    call('SETRANGE', other, first, bytes)
    call('BITOP', 'OR', page.key, page.key, other)
    call('DEL', other)
    expire(o, page.key)
    o.set = o.set + call('BITCOUNT', page.key, first, last) - before
    save(o, {})
  end
  return { 0, o.generation, o.ends }
end)
