-- What one tenant has and what waits, as of one moment. ARGV: tenant, time.
local waiting = {}
for _, lane in ipairs(lanes_of({tenant = ARGV[1], paused = {}})) do
  local first = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
  if first[1] then
    local scheduled = redis.call('ZCOUNT', lane.key, '(' .. ARGV[2], '+inf')
    local pending = redis.call('ZCARD', lane.key)
    waiting[#waiting + 1] = {lane.queue, lane.type, pending, first[2], scheduled}
  end
end
-- Packed, since a long answer of many parts takes the client far longer to read.
local counts = redis.call('HGETALL', root .. 'counts/' .. ARGV[1])
return {head()[1], cmsgpack.pack(counts), cmsgpack.pack(waiting)}
