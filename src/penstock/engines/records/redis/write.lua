-- Runs the commands of a turn if everything is as the turn found it, else nothing. To be sent again
-- when its answer was lost: a turn is written once.
-- ARGV: the commit, as MessagePack; its events; then the values of its records: of those that must
-- not be there yet, of those that replace one which begins so, and of others.
local commit = cmsgpack.unpack(ARGV[1])
local number = tonumber(commit.number)
local LAPSED_MAX = 100
local BUCKETS_DROPPED_MAX = 4
local WORDS_MAX = 4000 -- of one command; above that Lua's stack may not take it

-- Nothing that was written can be taken back, so whatever could fail is looked at before.
for _, commands in ipairs({commit.before, commit.after}) do
  for _, command in ipairs(commands) do
    if #command > WORDS_MAX then return redis.error_reply('ERR a command of too many words') end
  end
end

local function begins_with(value, bytes)
  if bytes == '' then return not value end
  return value and string.sub(value, 1, #bytes) == bytes
end

if not redis.call('ZSCORE', root .. 'turns', commit.turn) then
  -- Its time was up, or it has been written and nobody was told.
  local written = commit_numbered(number)
  return {written and written.token == commit.token and 1 or 0, 0}
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
  announce('')
  return {0, 0}
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

-- Says with what each lane begins that the turn has changed; see keys.py.
for _, changed in ipairs(commit.lanes) do
  local tenant, name = unpack(changed)
  local queue, band = string.match(name, '^([^/]*)/(.*)$')
  local lanes, bands = root .. 'lanes/' .. tenant, root .. 'bands/' .. tenant
  local beginnings = root .. 'beginnings/' .. tenant .. '/' .. band
  local inside = root .. 'inside/' .. tenant .. '/' .. queue
  local first = redis.call('ZRANGE', root .. 'lane/' .. tenant .. '/' .. name, 0, 0, 'WITHSCORES')
  local before = redis.call('HGET', lanes, name)
  local now = first[1] and string.sub(first[1], 1, 18) .. queue
  if before and before ~= now then redis.call('ZREM', beginnings, before) end
  if now then
    redis.call('ZADD', beginnings, first[2], now)
    if before ~= now then redis.call('HSET', lanes, name, now) end
    if not before then
      redis.call('SADD', bands, band)
      redis.call('SADD', inside, band)
    end
  elseif before then
    redis.call('HDEL', lanes, name)
    redis.call('SREM', inside, band)
    if redis.call('EXISTS', beginnings) == 0 then redis.call('SREM', bands, band) end
  end
end

local lapsed = redis.call(
  'ZRANGEBYSCORE', root .. 'lapsing', '-inf', commit.lapsed_at, 'LIMIT', 0, LAPSED_MAX)
for _, name in ipairs(lapsed) do
  redis.call('DEL', root .. 'hold/' .. name)
  redis.call('ZREM', root .. 'lapsing', name)
end

-- What is over; or the oldest where more is remembered than may be.
local excess = redis.call('ZCARD', root .. 'forgettable') - commit.remembered_max
local forgotten = redis.call(
  'ZRANGEBYSCORE', root .. 'forgettable', '-inf', excess > 0 and '+inf' or commit.lapsed_at,
  'LIMIT', 0, excess > 0 and math.min(excess, commit.forgets) or commit.forgets)
for _, name in ipairs(forgotten) do
  redis.call('DEL', root .. 'calls/' .. name)
  redis.call('ZREM', root .. 'forgettable', name)
end

local events, bucket = ARGV[2], bucket_of(number)
local size = #events + 25
local frame = struct.pack(
  FRAME, number % BUCKET, tonumber(commit.at), #events > APART_BYTES and 0 or #events)
if #events > APART_BYTES then
  redis.call('SET', root .. 'commit/' .. commit.number, events)
  events = ''
end
redis.call('APPEND', root .. 'bucket/' .. bucket, frame .. commit.token .. events)
local bytes = redis.call('HINCRBY', root .. 'head', 'events_bytes', size)
local before = redis.call('HMGET', root .. 'head', 'commit', 'at')
if number > tonumber(before[1] or 0) then
  redis.call('HSET', root .. 'head', 'commit', commit.number)
end
if tonumber(commit.at) >= tonumber(before[2] or 0) then
  redis.call('HSET', root .. 'head', 'at', commit.at, 'clock', commit.clock)
end
redis.call('HINCRBY', root .. 'head', 'completed', commit.completed)

if redis.call('ZADD', root .. 'buckets', bucket, bucket) == 1 then
  -- A new one, so the one before is full. What was appended to took up to twice its room.
  local full = redis.call(
    'ZREVRANGEBYSCORE', root .. 'buckets', '(' .. bucket, '-inf', 'LIMIT', 0, 1)[1]
  if full then
    local name = root .. 'bucket/' .. full
    redis.call('SET', name, redis.call('GET', name))
  end
  -- Now and then, and a little at a time, what nobody needs any more goes.
  local dropped = drop_commits(
    tonumber(commit.vacuum_before), tonumber(commit.vacuum_below), BUCKETS_DROPPED_MAX)
  if dropped == 0 and bytes > commit.events_bytes_max then
    dropped = drop_commits(math.huge, head()[5], BUCKETS_DROPPED_MAX)
  end
  if dropped > 0 then forget_departures(BUCKETS_DROPPED_MAX * BUCKET) end
end
announce(commit.is_for_all and FOR_ALL or commit.writer)
wake(commit.wakes)
return {1, bytes}
