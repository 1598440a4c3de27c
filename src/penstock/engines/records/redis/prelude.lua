-- What the scripts have in common; it is put before each of them.
-- KEYS[1] is the root of all names, whose hash tag keeps a queue on one node of a cluster.
local root = KEYS[1]
local CHUNK = 1000 -- arguments of one call; Lua's stack takes a few thousand
local TURN_MS_MAX = 3600000 -- no deadline is further away, unless the server's clock was set back
local NUMBERS_BEGAN_MS = 1767225600000 -- 2026 UTC; so positions keep to 18 digits until 2057

-- Which process of the server this is, as the client has asked it on this connection.
local run = ARGV[#ARGV]
local function digits(number) return string.format('%d', number) end

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

-- Calls a command for many arguments, some at a time.
local function call_many(command, key, arguments)
  for first = 1, #arguments, CHUNK do
    local last = math.min(first + CHUNK - 1, #arguments)
    redis.call(command, key, unpack(arguments, first, last))
  end
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

local function lane_named(tenant, queue, band)
  local type, priority = string.match(band, '^([^/]*)/(-?%d+)$')
  local name = queue .. '/' .. band
  return {
    name = name, key = root .. 'lane/' .. tenant .. '/' .. name, queue = queue, type = type,
    priority = tonumber(priority),
  }
end

-- The lanes in which a claim may find what it asks for, and no others: of named queues, their lanes;
-- else of each type and priority those lanes that begin first. The others can't have what is next.
-- `most`: how many of each; `due_by`: when they have to begin.
local function lanes_to_open(wanted, due_by, most)
  local types, paused, lanes = wanted.types, wanted.paused, {}
  local function is_asked(band) return not types or types[string.match(band, '^([^/]*)')] end
  if wanted.queues then
    for queue in pairs(wanted.queues) do
      if not paused[queue] then
        local inside = root .. 'inside/' .. wanted.tenant .. '/' .. queue
        for _, band in ipairs(redis.call('SMEMBERS', inside)) do
          if is_asked(band) then lanes[#lanes + 1] = lane_named(wanted.tenant, queue, band) end
        end
      end
    end
    return lanes
  end
  for _, band in ipairs(redis.call('SMEMBERS', root .. 'bands/' .. wanted.tenant)) do
    local beginnings = root .. 'beginnings/' .. wanted.tenant .. '/' .. band
    local left, offset = is_asked(band) and most or 0, 0
    while left > 0 do
      local found = redis.call(
        'ZRANGEBYSCORE', beginnings, '-inf', due_by, 'LIMIT', offset, left)
      if #found == 0 then break end
      offset = offset + #found
      for _, member in ipairs(found) do
        local queue = string.sub(member, 19)
        if not paused[queue] then
          lanes[#lanes + 1] = lane_named(wanted.tenant, queue, band)
          left = left - 1
        end
      end
    end
  end
  return lanes
end

-- All lanes of pending records of some queues and types: {name, key, priority}.
local function lanes_of(wanted)
  local queues, types, paused = wanted.queues, wanted.types, wanted.paused
  local lanes = {}
  for _, name in ipairs(redis.call('HKEYS', root .. 'lanes/' .. wanted.tenant)) do
    local queue, band = string.match(name, '^([^/]*)/(.*)$')
    local type = string.match(band, '^([^/]*)')
    if not paused[queue] and (not queues or queues[queue]) and (not types or types[type]) then
      lanes[#lanes + 1] = lane_named(wanted.tenant, queue, band)
    end
  end
  return lanes
end
