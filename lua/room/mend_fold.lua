-- room/mend_fold: puts fans where the ledger left them. Asking again changes nothing.
-- Same as: room::model::mend::mend
-- PARTS: whole
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed
-- ARGV: 1 generation, then four a fan: fan, where (called, claimed, returned, used, left, revoked),
--       until or 0, place or 0
-- OUT:  {'done'} | {'stale'}

-- read
local room = redis.call('HMGET', KEYS[1], 'mending_replid', 'last_ms', 'offset_ms',
  'mending_generation', 'serving')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + (found(room[3], KEYS[1]) or 0), found(room[2], KEYS[1]) or 0)

-- refuse: a mender that slept, or a second loss
if room[1] ~= replid or found(room[4], KEYS[1]) ~= tonumber(ARGV[1]) then
  if room[2] then
    redis.call('HDEL', KEYS[1], 'nothing')
    redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
  end
  return { 'stale' }
end

-- write
local serving = whole(room[5], KEYS[1])
local ended = { used = -1, left = -2, revoked = -3 }
for i = 2, #ARGV, 4 do
  local fan, where, until_ms, place = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  for k = 2, 6 do redis.call('ZREM', KEYS[k], fan) end
  if ended[where] then
    redis.call('ZADD', KEYS[5], ended[where], fan)
  else
    serving = math.max(serving, tonumber(place))
    if where ~= 'returned' then redis.call('ZADD', KEYS[5], until_ms, fan) end
    redis.call('ZADD', KEYS[({ returned = 3, called = 4, claimed = 6 })[where]], place, fan)
  end
end
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'serving', serving)
return { 'done' }
