-- room/trim: lets go of the entries up to and including one. Asking again changes nothing.
-- Same as: room::model::ledger::trim
-- PARTS: whole, trim
-- KEYS: 1 room, 2 ledger
-- ARGV: 1 seq of the last entry to go
-- OUT:  {'done'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ledger_seq')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local last = whole(room[4], KEYS[1])

-- write: an HDEL first, so that a full Redis can be relieved
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
trim(KEYS[2], last, ARGV[1])
return { 'done' }
