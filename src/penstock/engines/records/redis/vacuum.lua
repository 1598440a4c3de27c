-- Drops some of the oldest commits, and departures whose events are all gone.
-- ARGV: written before, below which number, how many buckets and departures at most.
local most = tonumber(ARGV[3])
local dropped, is_more = drop_commits(tonumber(ARGV[1]), tonumber(ARGV[2]), most)
local forgotten = forget_departures(most)
return {dropped, (is_more or forgotten == most) and 1 or 0}
