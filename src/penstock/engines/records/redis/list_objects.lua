-- A page of the objects whose keys begin with a prefix and come after one: key, length, beginning.
-- ARGV: prefix, after, how many.
local from = '[' .. ARGV[1]
if ARGV[2] ~= '' and ARGV[2] >= ARGV[1] then from = '(' .. ARGV[2] end
local keys = redis.call(
  'ZRANGEBYLEX', root .. 'objects', from, '(' .. ARGV[1] .. '\255', 'LIMIT', 0, ARGV[3])
local page = {}
for place, key in ipairs(keys) do
  local name = root .. 'object/' .. key
  page[place] = {key, redis.call('STRLEN', name), redis.call('GETRANGE', name, 0, 7)}
end
return page
