-- Finds what a turn asks for, and unless it only looks, gives it a number and hides its candidates
-- from other turns until it ends or its time is up.
-- ARGV[1]: what is asked for, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local PROMOTED_MAX = 500 -- lanes that have come due, with one turn
local given = redis.call('HMGET', root .. 'head', 'number', 'run')
local number = tonumber(given[1] or 0) + 1
-- The first to be written is something that a full server refuses, or it would refuse nothing.
local function take_number()
  if given[2] ~= run then
    -- Another process of the server gave the last one that is known here, and perhaps more of them
    -- which went with it. By the clock none was this high.
    number = math.max(number, now_ms - NUMBERS_BEGAN_MS)
    redis.call('HSET', root .. 'head', 'run', run)
  end
  redis.call('HSET', root .. 'head', 'number', digits(number))
end
local answer = head()
local names, seen = {}, {}

-- What other turns have found they may be about to change. Who only looks sees it all.
local hidden, past, reserved = {}, {}, {}
if not asked.only_looks then hidden, past = hidden_by_turns(asked.reserved_ms) end

local function add(name)
  if not seen[name] then
    seen[name] = true
    names[#names + 1] = name
  end
end

-- An index has the life, in digits, and the name of each record.
local function take(index, members)
  for _, member in ipairs(members) do add(string.sub(member, 19)) end
  if #members > 0 then reserved[index] = (reserved[index] or 0) + #members end
end

-- The first so many members of an index that are due and not hidden.
local function first_of(index, due_by, count)
  return redis.call('ZRANGEBYSCORE', index, '-inf', due_by, 'LIMIT', hidden[index] or 0, count)
end

local function take_front(front)
  local index = root .. 'shelf/' .. front.shelf
  local found = first_of(index, front['until'], front.most)
  if #found < front.least then found = first_of(index, '+inf', front.least) end
  take(index, found)
end

for _, front in ipairs(asked.fronts) do take_front(front) end

for _, name in ipairs(asked.ids) do add(name) end

for _, claim in ipairs(asked.claims) do
  local tenant = string.match(claim, '^[^/]*/')
  local got = redis.call('HGETALL', root .. 'claim/' .. claim)
  for place = 1, #got, 2 do
    if got[place] ~= 'left' then
      -- Some of them it may not have any more; whoever decides sees that.
      for id in string.gmatch(got[place + 1], '[^/]+') do add(tenant .. id) end
    end
  end
end

-- Takes the first of several lanes of one priority, by time and life; answers how many.
local function take_merged(lanes, due_by, count)
  if #lanes == 1 then
    local members = first_of(lanes[1].key, due_by, count)
    take(lanes[1].key, members)
    return #members
  end
  local found = {}
  for _, lane in ipairs(lanes) do
    local members = redis.call(
      'ZRANGEBYSCORE', lane.key, '-inf', due_by, 'WITHSCORES', 'LIMIT', hidden[lane.key] or 0, count)
    for place = 1, #members, 2 do
      found[#found + 1] = {tonumber(members[place + 1]), members[place], lane.key}
    end
  end
  table.sort(found, function(one, other)
    if one[1] ~= other[1] then return one[1] < other[1] end
    return one[2] < other[2]
  end)
  local taken = math.min(count, #found)
  for place = 1, taken do take(found[place][3], {found[place][2]}) end
  return taken
end

-- A lane whose first records are hidden may have nothing for this turn.
local hidden_lanes = 0
for _ in pairs(hidden) do hidden_lanes = hidden_lanes + 1 end

-- The lanes in which a claim may find what it asks for, in the order of what they begin with. What
-- is next is in one of the first so many: whatever another has comes after what these begin with.
-- Lanes that have come due, but are not on the boards of those that are, are noted in `ripe`.
local ripe = {}
local function lanes_to_open(wanted, most)
  local lanes, due_by = {}, tonumber(wanted.due_by)
  for _, board in ipairs(boards_for('ready', wanted)) do
    local left = most
    each_lane(board, wanted, most, function(lane)
      if lane.at <= due_by then
        lanes[#lanes + 1], left = lane, left - 1
      end
      return left == 0
    end)
  end
  for _, board in ipairs(boards_for('later', wanted)) do
    each_lane(board, wanted, 1, function(lane)
      if lane.at > due_by then return true end
      lanes[#lanes + 1] = lane
      ripe[#ripe + 1] = {wanted.tenant, lane}
    end)
  end
  table.sort(lanes, function(one, other)
    if one.priority ~= other.priority then return one.priority < other.priority end
    return one.entry < other.entry
  end)
  return lanes
end

for _, wanted in ipairs(asked.wanted) do
  local left, group = wanted.count, {}
  for _, lane in ipairs(lanes_to_open(wanted, wanted.count + hidden_lanes)) do
    if left == 0 then break end
    if #group > 0 and group[1].priority ~= lane.priority then
      left = left - take_merged(group, wanted.due_by, left)
      group = {}
    end
    -- No more of them than records are wanted, beside those that may have none for this turn.
    if #group < left + hidden_lanes then group[#group + 1] = lane end
  end
  if left > 0 and #group > 0 then take_merged(group, wanted.due_by, left) end
end

-- From now on they are where the next claim looks first.
local function promote(tenant, lane)
  local lanes = root .. 'lanes/' .. tenant
  if redis.call('HGET', lanes, lane.name) ~= 'l' .. lane.entry then return end
  for _, board in ipairs(boards_of('ready', tenant, lane)) do
    redis.call('ZADD', board, lane.priority, lane.entry)
  end
  redis.call('HSET', lanes, lane.name, 'r' .. lane.entry)
  for _, board in ipairs(boards_of('later', tenant, lane)) do redis.call('ZREM', board, lane.entry) end
end

if not asked.only_looks then
  if asked.may_be_idle and #names == 0 then
    -- An idle turn ends here: it has written nothing, so there is nothing to end or to forget.
    return {answer, 0, '', '', '', '', '', '', '', '', ''}
  end
  take_number()
end
if not asked.only_looks then
  for place = 1, math.min(#ripe, PROMOTED_MAX) do promote(unpack(ripe[place])) end
end
for _, turn in ipairs(past) do redis.call('HDEL', root .. 'reserved', turn) end
for _, front in ipairs(asked.riding) do take_front(front) end

-- The records, and the names of the keys that they have. See packing.py for the bytes.
local NO_KEY = '\255\255\255\255'
local records, holds, is_asked = {}, {}, {}
local function ask_hold(name)
  if not is_asked[name] then
    is_asked[name] = true
    holds[#holds + 1] = name
  end
end
local function read(record_names, lives)
  local keys = {}
  for place, name in ipairs(record_names) do keys[place] = root .. 'job/' .. name end
  for place, value in ipairs(values_of(keys)) do
    if value and (not lives or lives[place] == string.sub(value, 9, 26)) then
      records[#records + 1] = value
      if string.sub(value, 27, 30) ~= NO_KEY then
        local key_length, _, lane_length, claim_length = struct.unpack('>I4c1I2I2', value, 27)
        local tenant = string.match(record_names[place], '^([^/]*)/')
        local lane = string.match(string.sub(value, 36, 35 + lane_length), '^(.*)/')
        local start = 36 + lane_length + claim_length
        local key = string.sub(value, start, start + key_length - 1)
        ask_hold(tenant .. '/' .. lane .. '/' .. key)
      end
    end
  end
end
read(names)
for _, name in ipairs(asked.keys) do ask_hold(name) end

-- Who holds them; a holder has the same key, so that nothing new is to be asked for after that.
local held_names, held_values, holders, lives = {}, {}, {}, {}
local hold_keys = {}
for place, name in ipairs(holds) do hold_keys[place] = root .. 'hold/' .. name end
for place, value in ipairs(values_of(hold_keys)) do
  if value then
    held_names[#held_names + 1] = holds[place]
    held_values[#held_values + 1] = value
    local life, id = string.match(value, '^(%d+)/[^/]*/[^/]*/(.*)$')
    local holder = string.match(holds[place], '^([^/]*/)') .. id
    if not seen[holder] then
      seen[holder] = true
      holders[#holders + 1] = holder
      lives[#holders] = life
    end
  end
end
read(holders, lives)

local turn = ''
if not asked.only_looks then
  turn = string.format('%d/%d/%s', number, now_ms + asked.turn_ms, asked.token)
  redis.call('ZADD', root .. 'turns', number, turn)
  if next(reserved) then
    local until_ms = now_ms + asked.reserved_ms
    redis.call(
      'HSET', root .. 'reserved', turn, cmsgpack.pack({until_ms = until_ms, counts = reserved}))
  end
end

-- What jobs that left have left behind; nothing where that is forgotten.
local left_keys, left = {}, {}
for place, name in ipairs(asked.departed) do left_keys[place] = root .. 'calls/' .. name end
for place, value in ipairs(values_of(left_keys)) do left[place] = value or '' end

local left_lengths, left_bytes = joined(left)
local record_lengths, record_bytes = joined(records)
local name_lengths, name_bytes = joined(held_names)
local hold_lengths, hold_bytes = joined(held_values)
return {
  answer, number, turn, record_lengths, record_bytes, name_lengths, name_bytes, hold_lengths,
  hold_bytes, left_lengths, left_bytes,
}
