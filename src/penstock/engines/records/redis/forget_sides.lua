-- Forgets side objects that were released before a time. ARGV: that time.
local sides = redis.call('HGETALL', root .. 'sides')
for place = 1, #sides, 2 do
  local released_at = tonumber(sides[place + 1])
  if released_at and released_at < tonumber(ARGV[1]) then
    redis.call('HDEL', root .. 'sides', sides[place])
  end
end
return 1
