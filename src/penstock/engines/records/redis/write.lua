-- Runs the commands of a turn if everything is as the turn found it, else nothing. To be sent again
-- when its answer was lost: a turn is written once.
-- ARGV: the commit, as MessagePack; its events; then the values of its records: of those that must
-- not be there yet, of those that replace one which begins so, and of others.
local commit = cmsgpack.unpack(ARGV[1])
local commit_key = root .. 'commit/' .. commit.number
local LAPSED_MAX = 100

local function begins_with(value, bytes)
  if bytes == '' then return not value end
  return value and string.sub(value, 1, #bytes) == bytes
end

if not redis.call('ZSCORE', root .. 'turns', commit.turn) then
  -- Its time was up, or it has been written and nobody was told.
  return begins_with(redis.call('GET', commit_key), commit.mark) and 1 or 0
end
redis.call('ZREM', root .. 'turns', commit.turn)
redis.call('HDEL', root .. 'reserved', commit.turn)

local function is_as_found()
  for first = 1, commit.new, CHUNK do
    local last = math.min(first + CHUNK - 1, commit.new)
    if redis.call('EXISTS', unpack(commit.records, first, last)) > 0 then return false end
  end
  for first = commit.new + 1, commit.new + #commit.replaced, CHUNK do
    local last = math.min(first + CHUNK - 1, commit.new + #commit.replaced)
    for place, value in ipairs(redis.call('MGET', unpack(commit.records, first, last))) do
      if not begins_with(value, commit.replaced[first - commit.new + place - 1]) then return false end
    end
  end
  for place, value in ipairs(values_of(commit.compared)) do
    if not begins_with(value, commit.beginnings[place]) then return false end
  end
  return true
end
if not is_as_found() then
  -- Commits that had to wait for it are readable now.
  redis.call('PUBLISH', root .. 'changed', '')
  return 0
end

for _, command in ipairs(commit.before) do redis.call(unpack(command)) end
for first = 1, #commit.records, CHUNK do
  local pairs_, last = {}, math.min(first + CHUNK - 1, #commit.records)
  for place = first, last do
    pairs_[#pairs_ + 1] = commit.records[place]
    pairs_[#pairs_ + 1] = ARGV[place + 2]
  end
  redis.call('MSET', unpack(pairs_))
end
for _, command in ipairs(commit.after) do redis.call(unpack(command)) end

local lapsed = redis.call(
  'ZRANGEBYSCORE', root .. 'lapsing', '-inf', commit.lapsed_at, 'LIMIT', 0, LAPSED_MAX)
for _, name in ipairs(lapsed) do
  redis.call('DEL', root .. 'hold/' .. name)
  redis.call('ZREM', root .. 'lapsing', name)
end

redis.call('SET', commit_key, commit.mark .. ARGV[2])
redis.call('ZADD', root .. 'commits', commit.number, commit.number)
local before = redis.call('HMGET', root .. 'head', 'commit', 'at')
if tonumber(commit.number) > tonumber(before[1] or 0) then
  redis.call('HSET', root .. 'head', 'commit', commit.number)
end
if tonumber(commit.at) > tonumber(before[2] or 0) then
  redis.call('HSET', root .. 'head', 'at', commit.at)
end
redis.call('HINCRBY', root .. 'head', 'completed', commit.completed)
redis.call('PUBLISH', root .. 'changed', commit.writer)
return 1
