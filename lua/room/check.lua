-- room/check: which of these fans have a live, claimed admission.
-- Same as: room::model::claim::check
-- PARTS: whole, fans
-- KEYS: 1 room, 2 standby, 3 admissions
-- ARGV: 1.. the fans
-- OUT:  {'checked', (word, value) a fan} | {'unfenced'}; the words: 'live' until | 'not_live'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local standby = ARGV[1] and redis.call('ZMSCORE', KEYS[2], unpack(ARGV))
local admissions = ARGV[1] and redis.call('ZMSCORE', KEYS[3], unpack(ARGV))
local out = { 'checked' }
for i = 1, #ARGV do
  local until_ms = ends(admissions[i], KEYS[3])
  local is_live = until_ms and now < until_ms and not standby[i]
  out[#out + 1], out[#out + 2] = is_live and 'live' or 'not_live', is_live and until_ms or 0
end

-- write: the clock only; an HDEL first, so that the gate works in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
return out
