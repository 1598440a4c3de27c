-- The first commits after a number that are readable. ARGV: the number, how many.
local after, readable, most = tonumber(ARGV[1]), head()[5], tonumber(ARGV[2])
local numbers, found = {}, {}
local from = bucket_of(after + 1)
while #found < most and from do
  local next_from
  for _, bucket in ipairs(redis.call(
    'ZRANGEBYSCORE', root .. 'buckets', from, bucket_of(readable), 'LIMIT', 0, 4)) do
    for _, commit in ipairs(commits_in(bucket)) do
      if commit.number > after and commit.number <= readable and #found < most then
        numbers[#numbers + 1] = digits(commit.number)
        found[#found + 1] = events_of(commit)
      end
    end
    next_from = '(' .. bucket
  end
  from = next_from
end
local lengths, bytes = joined(found)
return {table.concat(numbers, ','), lengths, bytes}
