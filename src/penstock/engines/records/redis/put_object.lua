-- Puts an object if its condition is met: '*' any, '' nothing is there, else the version that is.
-- ARGV: key, condition, the new version, data. Answers the server's time, or false.
local key, condition = root .. 'object/' .. ARGV[1], ARGV[2]
if condition ~= '*' then
  local length = math.max(#condition, 1)
  if redis.call('GETRANGE', key, 8, 7 + length) ~= condition then return false end
end
local at = tonumber(time[1]) + tonumber(time[2]) / 1000000
redis.call('SET', key, struct.pack('>d', at) .. ARGV[3] .. ARGV[4])
redis.call('ZADD', root .. 'objects', 0, ARGV[1])
return string.format('%.17g', at)
