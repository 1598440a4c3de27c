-- The names of one tenant's records on some shelves, and their values if they are not too many.
-- ARGV: what is asked for, as MessagePack.
local asked = cmsgpack.unpack(ARGV[1])
local beginning, names = asked.tenant .. '/', {}
for _, shelf in ipairs(asked.shelves) do
  if shelf == 'pending' then
    for _, lane in ipairs(lanes_of(asked)) do
      for _, member in ipairs(redis.call('ZRANGE', lane.key, 0, -1)) do names[#names + 1] = member end
    end
  else
    for _, member in ipairs(redis.call('ZRANGE', root .. 'shelf/' .. shelf, 0, -1)) do
      if string.sub(member, 19, 18 + #beginning) == beginning then names[#names + 1] = member end
    end
  end
end
table.sort(names)
if #names > asked.at_once then return {table.concat(names, '\n')} end
local keys = {}
for place, member in ipairs(names) do keys[place] = root .. 'job/' .. string.sub(member, 19) end
local lengths, bytes = joined(values_of(keys))
return {table.concat(names, '\n'), lengths, bytes}
