-- room/ledger: the oldest entries that are not yet trimmed.
-- Same as: room::model::ledger::read
-- PARTS: whole
-- KEYS: 1 room, 2 ledger
-- ARGV: 1 how many at most
-- OUT:  {'ledger', the fields and values of an entry...} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local out, entries = { 'ledger' }, {}
if 0 < tonumber(ARGV[1]) then
  entries = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[1])
end
for i, entry in ipairs(entries) do out[i + 1] = entry[2] end

-- write: the clock only; an HDEL first, so that the ledger can be copied in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
return out
