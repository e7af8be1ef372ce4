-- bloom_sweep: deletes those of the pages that do not belong to the filter.
--
-- ARGV     behind the first two: nothing
-- Returns  {}
-- Complexity  O(pages).
-- Retry    deletes what is left.

return run(0, function(o, _, list)
  load(o, 'a')
  look(o, list)
  for _, page in ipairs(o.pages) do
    if page.length > 0 and not page.begun then call('DEL', page.key) end
  end
  return {}
end)
