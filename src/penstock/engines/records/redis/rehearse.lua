-- Runs every kind of command that a turn may write with, on a name that nothing else has, so that a
-- user who may not run one of them is refused here and not half-way. Leaves nothing behind.
local scratch = root .. 'scratch'
redis.call('SET', scratch, '')
redis.call('MSET', scratch, '')
redis.call('APPEND', scratch, '')
redis.call('DEL', scratch)
redis.call('SADD', scratch, '1')
redis.call('SREM', scratch, '1')
redis.call('HSET', scratch, '1', '1')
redis.call('HINCRBY', scratch, '1', '1')
redis.call('HDEL', scratch, '1')
redis.call('ZADD', scratch, 1, '1')
redis.call('ZREM', scratch, '1')
return 1
