-- What the scripts have in common; it is put before each of them.
-- KEYS[1] is the root of all names, whose hash tag keeps a queue on one node of a cluster.
local root = KEYS[1]
local CHUNK = 1000 -- arguments of one call; Lua's stack takes a few thousand
local TURN_MS_MAX = 3600000 -- no deadline is further away, unless the server's clock was set back
local NUMBERS_BEGAN_MS = 1767225600000 -- 2026 UTC; so positions keep to 18 digits until 2057

-- Which process of the server this is, as the client has asked it on this connection.
local run = ARGV[#ARGV]
local function digits(number) return string.format('%d', number) end

local WAITERS_MAX = 1000 -- among whom to choose; where more are waiting, all are told
local FOR_ALL = 'everybody' -- announced where whoever waits has to look

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

-- The lowest number of a turn that is under way; those whose time is up are ended on the way.
local function lowest_under_way()
  while true do
    local first = redis.call('ZRANGE', root .. 'turns', 0, 0)[1]
    if not first then return nil end
    local number, deadline = string.match(first, '^(%d+)/(%d+)/')
    deadline = tonumber(deadline)
    if now_ms <= deadline and deadline <= now_ms + TURN_MS_MAX then return tonumber(number) end
    -- One that can't be ended, since nothing can be written, may yet write when something can.
    local ended = redis.pcall('ZREM', root .. 'turns', first)
    if type(ended) == 'table' and ended.err then return tonumber(number) end
  end
end

-- The newest commit, its time, completed records, the charter, and what is readable.
local function head()
  local fields = redis.call('HMGET', root .. 'head', 'commit', 'at', 'completed', 'clock')
  local commit, lowest = tonumber(fields[1] or 0), lowest_under_way()
  local readable = commit
  if lowest and lowest <= commit then readable = lowest - 1 end
  local charter = redis.call('GET', root .. 'charter') or ''
  return {commit, fields[2] or '0', tonumber(fields[3] or 0), charter, readable, fields[4] or '0'}
end

-- Tells those who listen. What is done is done, also where nobody may be told: they look, too.
local function announce(writer) redis.pcall('PUBLISH', root .. 'changed', writer) end

-- Commits lie in buckets; see packing.py for the bytes.
local BUCKET = 32
local APART_BYTES = 4096 -- events that are more than this have a name of their own
local FRAME = '>BdI4'

local function bucket_of(number) return digits(math.floor(number / BUCKET)) end

-- What is in a bucket, by number.
local function commits_in(bucket)
  local value, place, found = redis.call('GET', root .. 'bucket/' .. bucket) or '', 1, {}
  while place <= #value do
    local offset, at, length, start = struct.unpack(FRAME, value, place)
    local stop = start + 12 + length
    found[#found + 1] = {
      number = bucket * BUCKET + offset, at = at, bytes = stop - place, is_apart = length == 0,
      token = string.sub(value, start, start + 11), frame = string.sub(value, place, stop - 1),
    }
    place = stop
  end
  table.sort(found, function(one, other) return one.number < other.number end)
  return found
end

local function events_of(commit)
  if commit.is_apart then return redis.call('GET', root .. 'commit/' .. digits(commit.number)) end
  return string.sub(commit.frame, 26)
end

local function commit_numbered(number)
  for _, commit in ipairs(commits_in(bucket_of(number))) do
    if commit.number == number then return commit end
  end
end

-- Drops commits from the oldest on that were written before a time and are below a number, and not
-- more buckets than so many. Answers how many went, and if there may be more.
local function drop_commits(written_before, below, buckets_max)
  local dropped, last, bytes = 0, nil, 0
  local buckets = redis.call('ZRANGE', root .. 'buckets', 0, buckets_max - 1)
  local is_more = #buckets == buckets_max
  for _, bucket in ipairs(buckets) do
    local rest = {}
    for _, commit in ipairs(commits_in(bucket)) do
      if #rest == 0 and commit.number < below and commit.at < written_before then
        if commit.is_apart then
          local name = root .. 'commit/' .. digits(commit.number)
          bytes = bytes + redis.call('STRLEN', name)
          redis.call('DEL', name)
        end
        dropped, last, bytes = dropped + 1, commit.number, bytes + commit.bytes
      else
        rest[#rest + 1] = commit.frame
      end
    end
    if #rest > 0 then
      if last and bucket_of(last) == bucket then
        redis.call('SET', root .. 'bucket/' .. bucket, table.concat(rest))
      end
      is_more = false
      break
    end
    redis.call('DEL', root .. 'bucket/' .. bucket)
    redis.call('ZREM', root .. 'buckets', bucket)
  end
  if last then
    -- No higher: who has read the last one that goes misses nothing.
    local first = tonumber(redis.call('HGET', root .. 'head', 'first_commit') or 1)
    redis.call('HSET', root .. 'head', 'first_commit', digits(math.max(first, last + 1)))
    redis.call('HINCRBY', root .. 'head', 'events_bytes', digits(-bytes))
  end
  return dropped, is_more
end

-- Forgets some departures whose events are all gone.
local function forget_departures(most)
  local first = redis.call('HGET', root .. 'head', 'first_commit') or '1'
  local departed = redis.call(
    'ZRANGEBYSCORE', root .. 'departed', '-inf', '(' .. first, 'LIMIT', 0, most)
  for _, member in ipairs(departed) do
    local name, life = string.match(member, '^(.*)/(%d+)$')
    redis.call('HDEL', root .. 'departure/' .. name, life)
    redis.call('ZREM', root .. 'departed', member)
  end
  return #departed
end

-- The values of these keys, in order; false where there is none.
local function values_of(keys)
  local values = {}
  for first = 1, #keys, CHUNK do
    local last = math.min(first + CHUNK - 1, #keys)
    for _, value in ipairs(redis.call('MGET', unpack(keys, first, last))) do
      values[#values + 1] = value
    end
  end
  return values
end

-- Many strings as two, since one long answer is read faster than many short ones.
local function joined(values)
  local lengths = {}
  for place, value in ipairs(values) do lengths[place] = #value end
  return table.concat(lengths, ','), table.concat(values)
end

-- How many of the first records of each index turns under way have for themselves; the turns whose
-- time for that is up; and when the first of the others has to end. A deadline too far away is of a
-- clock that was set back.
local function hidden_by_turns(reserved_ms)
  local hidden, past, first_end = {}, {}, nil
  local turns = redis.call('HGETALL', root .. 'reserved')
  for place = 1, #turns, 2 do
    local turn = cmsgpack.unpack(turns[place + 1])
    if now_ms <= turn.until_ms and turn.until_ms <= now_ms + reserved_ms then
      for index, count in pairs(turn.counts) do hidden[index] = (hidden[index] or 0) + count end
      first_end = math.min(first_end or turn.until_ms, turn.until_ms)
    else
      past[#past + 1] = turns[place]
    end
  end
  return hidden, past, first_end
end

-- Tells those who wait for work that some has come, the longest waiting first; each once. Whom
-- nobody hears any more is passed over. `wakes`: {tenant, queue, type, jobs} each; -1: everybody.
local function wake(wakes)
  if #wakes == 0 then return end
  local names = redis.call('ZRANGE', root .. 'line', 0, WAITERS_MAX)
  if #names == 0 then return end
  if #names > WAITERS_MAX then
    announce(FOR_ALL)
    return
  end
  local wants = redis.call('HMGET', root .. 'waiters', unpack(names))
  for place, want in ipairs(wants) do wants[place] = want and cmsgpack.unpack(want) end
  for _, one in ipairs(wakes) do
    local tenant, queue, kind, left = unpack(one)
    for place, name in ipairs(names) do
      if left == 0 then break end
      local want = wants[place]
      if want and want.tenant == tenant and (not want.queues or want.queues[queue])
        and (not want.types or want.types[kind]) then
        local handle, rest = string.match(name, '^([^/]*)/(.*)$')
        local told = cjson.encode({rest, tenant, queue, kind, one[4]})
        -- Where nobody may be told they look by themselves; what was written stands.
        local heard = redis.pcall('PUBLISH', root .. 'wake/' .. handle, told)
        if type(heard) == 'number' and heard > 0 then left = left - 1 end
        redis.call('ZREM', root .. 'line', name)
        redis.call('HDEL', root .. 'waiters', name)
        wants[place] = false
      end
    end
  end
end

local function lane_named(tenant, queue, type, priority)
  local name = queue .. '/' .. type .. '/' .. priority
  return {
    name = name, key = root .. 'lane/' .. tenant .. '/' .. name, queue = queue, type = type,
    priority = tonumber(priority),
  }
end

-- All lanes of pending records of some queues and types.
local function lanes_of(wanted)
  local queues, types, lanes = wanted.queues, wanted.types, {}
  for _, name in ipairs(redis.call('HKEYS', root .. 'lanes/' .. wanted.tenant)) do
    local queue, type, priority = string.match(name, '^([^/]*)/([^/]*)/(.*)$')
    if (not queues or queues[queue]) and (not types or types[type]) then
      lanes[#lanes + 1] = lane_named(wanted.tenant, queue, type, priority)
    end
  end
  return lanes
end

-- Lanes are on boards, by what they begin with; see keys.py. An entry is the time, the life and the
-- lane's name, so that entries are in the order of what they stand for.
local function entry_of(at, life, name)
  return struct.pack('>d', math.max(tonumber(at), 0)) .. life .. name
end

local function on_board(tenant, entry)
  local lane = lane_named(
    tenant, string.match(string.sub(entry, 27), '^([^/]*)/([^/]*)/(.*)$'))
  lane.at, lane.entry = struct.unpack('>d', entry), entry
  return lane
end

-- The boards of one kind that a lane is on.
local function boards_of(kind, tenant, lane)
  local all = root .. kind .. '/' .. tenant
  return {all, all .. '/queue/' .. lane.queue, all .. '/type/' .. lane.type}
end

-- The boards of one kind on which all lanes are that a claim may take from.
local function boards_for(kind, wanted)
  local all, boards = root .. kind .. '/' .. wanted.tenant, {}
  if wanted.queues then
    for queue in pairs(wanted.queues) do boards[#boards + 1] = all .. '/queue/' .. queue end
  elseif wanted.types then
    for type in pairs(wanted.types) do boards[#boards + 1] = all .. '/type/' .. type end
  else
    boards[1] = all
  end
  return boards
end

-- Gives the lanes of a board that a claim may take from, in order, until it is told to stop.
-- `step`: how many entries to ask for at first.
local function each_lane(board, wanted, step, visit)
  local offset = 0
  while true do
    local entries = redis.call('ZRANGE', board, offset, offset + step - 1)
    for _, entry in ipairs(entries) do
      local lane = on_board(wanted.tenant, entry)
      if not wanted.paused[lane.queue] and (not wanted.types or wanted.types[lane.type])
        and visit(lane) then
        return
      end
    end
    if #entries < step then return end
    offset, step = offset + step, math.min(2 * step, CHUNK)
  end
end
