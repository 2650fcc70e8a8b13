-- room/mend_copy: lets go of the entries that SQL has, and tells the next that it may lack.
-- Same as: room::model::mend::mend
-- PARTS: whole, trim
-- KEYS: 1 room, 2 seq, 3 ledger
-- ARGV: 1 generation, 2 seq of the last entry that SQL has, 3 how many at most
-- OUT:  {'found', now, last number issued, the fields and values of an entry...} | {'stale'}

-- read
local room = redis.call('HMGET', KEYS[1], 'mending_replid', 'last_ms', 'offset_ms',
  'mending_generation', 'ledger_seq')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + (found(room[3], KEYS[1]) or 0), found(room[2], KEYS[1]) or 0)

-- refuse: a mender that slept, or a second loss
if room[2] then
  redis.call('HDEL', KEYS[1], 'nothing')
  redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
end
if room[1] ~= replid or found(room[4], KEYS[1]) ~= tonumber(ARGV[1]) then return { 'stale' } end

-- write
local issued = found(redis.call('GET', KEYS[2]), KEYS[2]) or 0
trim(KEYS[3], whole(room[5], KEYS[1]), ARGV[2])
local out, entries = { 'found', now, issued }, {}
if 0 < tonumber(ARGV[3]) then
  entries = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', ARGV[3])
end
for i, entry in ipairs(entries) do out[i + 3] = entry[2] end
return out
