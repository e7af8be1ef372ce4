-- bloom_clear: empties a filter. Its generation stays for a while, so that who knows it learns that nothing was lost.
--
-- The pages no longer belong to it; `bloom_sweep` deletes them.
--
-- ARGV     behind the first two: how long the record stays, in ms
-- Returns  {generation, ends, bits}   {} if there is none
-- Complexity  O(pages of the filter).
-- Retry    finds it cleared and tells the same.

return run(0, function(o, at)
  load(o, 'a')
  if not o.generation then return {} end
  if o.kept then
    o.former, o.kept = o.bits, false
    o.ends, o.set, o.lanes, o.sweep, o.terms = floor(now / 1000) + tonumber(ARGV[at]), 0, 0, 8, '- ' .. int(o.bits)
    save(o, {})
  end
  return { o.generation, o.ends, o.former }
end)
