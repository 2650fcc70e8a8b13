-- room/raise_ceiling: SQL has raised the highest number that may be issued.
-- Same as: room::model::apply
-- PARTS: whole
-- KEYS: 1 room
-- ARGV: 1 ceiling
-- OUT:  {'done'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ceiling')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))

-- write
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told,
  'ceiling', math.max(whole(room[4], KEYS[1]), tonumber(ARGV[1])))
return { 'done' }
