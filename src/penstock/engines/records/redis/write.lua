-- Runs the commands of a turn if everything is as the turn found it, else nothing. To be sent again
-- when its answer was lost: a turn is written once.
-- ARGV: the commit, as MessagePack; its events. The commit's `records` are names and values in turn:
-- first `new` of them that must not be there yet, then those that replace one of the version that
-- is in `replaced`, one after the other, then others.
local commit = cmsgpack.unpack(ARGV[1])
local number = tonumber(commit.number)
local LAPSED_MAX = 100
local BUCKETS_DROPPED_MAX = 4
local VERSION_BYTES = 8
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

local records = commit.records
local function names_between(first, last)
  local names = {}
  for place = first, last do names[#names + 1] = records[2 * place - 1] end
  return names
end

-- The litter in which a life is or would be, and the name of all of them.
local function litter_of(tenant, life)
  local litters = root .. 'lives/' .. tenant
  local first = redis.call('ZREVRANGEBYLEX', litters, '[' .. life, '-', 'LIMIT', 0, 1)[1]
  return litters, first
end

-- Leaves in a litter what is earlier than a life; what is later becomes one of its own.
local function part_litter(tenant, litters, first, life)
  local earlier, later, later_first = {}, {}, nil
  local ids, keys = {}, {}
  for id in string.gmatch(redis.call('GET', litters .. '/' .. first), '[^/]+') do
    ids[#ids + 1] = id
    keys[#keys + 1] = root .. 'job/' .. tenant .. '/' .. id
  end
  for place, value in ipairs(values_of(keys)) do
    local its_life = value and string.sub(value, 9, 26)
    if its_life and its_life > life then
      later[#later + 1] = ids[place]
      if not later_first or its_life < later_first then later_first = its_life end
    else
      earlier[#earlier + 1] = ids[place]
    end
  end
  -- Stored anew in any case: what was appended to took up to twice its room.
  redis.call('SET', litters .. '/' .. first, '/' .. table.concat(earlier, '/') .. '/')
  if later_first then
    redis.call('ZADD', litters, 0, later_first)
    redis.call('SET', litters .. '/' .. later_first, '/' .. table.concat(later, '/') .. '/')
  end
end

-- Notes which records begin to live, so that they can be listed in the order of their lives. What
-- began with the newest commit is later than everything there is.
local function note_lives(tenant, born, is_newest)
  local begun_here
  for _, one in ipairs(born) do
    local life, ids, bytes_max, is_fresh = unpack(one)
    local litters, first = litter_of(tenant, life)
    local name = first and litters .. '/' .. first
    if first and redis.call('STRLEN', name) + #ids <= bytes_max then
      redis.call('APPEND', name, ids)
    else
      if first and is_fresh and is_newest then
        redis.call('SET', name, redis.call('GET', name))
      elseif first and first ~= begun_here then
        part_litter(tenant, litters, first, life)
      end
      redis.call('ZADD', litters, 0, life)
      redis.call('SET', litters .. '/' .. life, '/' .. ids)
      begun_here = life
    end
  end
end

-- `lives`: life and id of each record that has left, in order.
local function forget_lives(tenant, lives)
  local litters, first, next_first, ids
  local function keep()
    if not first then return end
    local name = litters .. '/' .. first
    if #ids > 1 then
      redis.call('SET', name, ids)
    else
      redis.call('DEL', name)
      redis.call('ZREM', litters, first)
    end
  end
  for _, one in ipairs(lives) do
    local life, id = unpack(one)
    if not first or (next_first and life >= next_first) then
      keep()
      litters, first = litter_of(tenant, life)
      if first then
        next_first = redis.call('ZRANGEBYLEX', litters, '(' .. first, '+', 'LIMIT', 0, 1)[1]
        ids = redis.call('GET', litters .. '/' .. first)
      end
    end
    local start, stop = string.find(ids or '', '/' .. id .. '/', 1, true)
    if start then ids = string.sub(ids, 1, start) .. string.sub(ids, stop + 1) end
  end
  keep()
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
    local names = names_between(first, math.min(first + CHUNK - 1, commit.new))
    if redis.call('EXISTS', unpack(names)) > 0 then return false end
  end
  local replaced, count = commit.replaced, #commit.replaced / VERSION_BYTES
  for first = 1, count, CHUNK do
    local last = math.min(first + CHUNK - 1, count)
    local values = redis.call('MGET', unpack(names_between(commit.new + first, commit.new + last)))
    for place, value in ipairs(values) do
      -- A commit writes a record once, so its version alone says which life that is.
      local stop = (first + place - 1) * VERSION_BYTES
      local version = string.sub(replaced, stop - VERSION_BYTES + 1, stop)
      if not value or string.sub(value, 1, VERSION_BYTES) ~= version then return false end
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
for first = 1, #records, 2 * CHUNK do
  redis.call('MSET', unpack(records, first, math.min(first + 2 * CHUNK - 1, #records)))
end
for _, command in ipairs(commit.after) do redis.call(unpack(command)) end

-- What claims have: adding comes first, since one that has nothing any more goes.
for _, claim in ipairs(commit.claims) do
  redis.call('HSET', claim[1], commit.number, claim[2])
  redis.call('HINCRBY', claim[1], 'left', claim[3])
end
for _, claim in ipairs(commit.claims_left) do
  if redis.call('HINCRBY', claim[1], 'left', -claim[2]) <= 0 then redis.call('DEL', claim[1]) end
end

for _, gone in ipairs(commit.gone) do forget_lives(gone[1], gone[2]) end
local is_newest = number > tonumber(redis.call('HGET', root .. 'head', 'commit') or 0)
for _, born in ipairs(commit.born) do note_lives(born[1], born[2], is_newest) end

for _, tail in ipairs(commit.tails) do
  redis.call('ZADD', root .. 'tails/' .. tail[1], 'GT', tail[3], tail[2])
end

-- Says on the boards with what each lane begins that the turn has changed.
for _, changed in ipairs(commit.lanes) do
  local tenant, queue, kind, priority = unpack(changed)
  local lane, lanes = lane_named(tenant, queue, kind, priority), root .. 'lanes/' .. tenant
  local first = redis.call('ZRANGE', lane.key, 0, 0, 'WITHSCORES')
  local before, now = redis.call('HGET', lanes, lane.name), false
  if first[1] then
    local is_due = tonumber(first[2]) <= tonumber(commit.at)
    local entry = entry_of(first[2], string.sub(first[1], 1, 18), lane.name)
    now = (is_due and 'r' or 'l') .. entry
    if now ~= before then
      for _, board in ipairs(boards_of(is_due and 'ready' or 'later', tenant, lane)) do
        redis.call('ZADD', board, is_due and priority or first[2], entry)
      end
      redis.call('HSET', lanes, lane.name, now)
    end
  elseif before then
    redis.call('HDEL', lanes, lane.name)
    redis.call('ZREM', root .. 'tails/' .. tenant, lane.name)
  end
  if before and before ~= now then
    local board_kind = string.sub(before, 1, 1) == 'r' and 'ready' or 'later'
    for _, board in ipairs(boards_of(board_kind, tenant, lane)) do
      redis.call('ZREM', board, string.sub(before, 2))
    end
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
