-- room/raise_ceiling: SQL has raised the highest number that may be issued.
-- Same as: room::model::apply
-- KEYS: 1 room
-- ARGV: 1 ceiling
-- OUT:  {'done'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ceiling')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + room[3], tonumber(room[2]))

-- write
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told,
  'ceiling', math.max(tonumber(room[4]), tonumber(ARGV[1])))
return { 'done' }
