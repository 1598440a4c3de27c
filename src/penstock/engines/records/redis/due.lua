-- When the first of some pending records is due, and the first lease runs out; '' if there is none.
-- ARGV[1]: which records, as MessagePack.
local pending = ''
for _, lane in ipairs(lanes_to_open(cmsgpack.unpack(ARGV[1]), '+inf', 1)) do
  local at = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')[2]
  if at and (pending == '' or tonumber(at) < tonumber(pending)) then pending = at end
end
local lease_end = redis.call('ZRANGE', root .. 'shelf/running', 0, 0, 'WITHSCORES')[2]
return {pending, lease_end or ''}
