-- The events of one commit, if it is there. ARGV: its number.
local commit = commit_numbered(tonumber(ARGV[1]))
return commit and events_of(commit)
