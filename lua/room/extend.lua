-- room/extend: prolongs a live admission, within bounds; never shortens it.
-- Same as: room::model::claim::extend
-- PARTS: whole, fans, may, ledger
-- KEYS: 1 room, 2 standby, 3 admissions, 4 ledger
-- ARGV: 1 fan, 2 until
-- OUT:  {'until', until} | {'not_live'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ticket_ttl_max_ms',
  'ledger_seq', 'generation', 'token', 'serving')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local ledger, fan = open_ledger(KEYS[4], KEYS[1], { unpack(room, 5, 8) }), ARGV[1]
local before = ends(redis.call('ZSCORE', KEYS[3], fan), KEYS[3])
local is_live = before and now < before and not redis.call('ZSCORE', KEYS[2], fan)
local until_ms = math.min(tonumber(ARGV[2]), now + whole(room[4], KEYS[1]))

-- write: an HDEL first, so that extending works in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if not is_live then return { 'not_live' } end
if until_ms <= before then return { 'until', before } end
write_down(ledger, now, 'extended', 'fan', fan, 'until', until_ms)
redis.call('ZADD', KEYS[3], until_ms, fan)
redis.call('HSET', KEYS[1], 'ledger_seq', ledger.seq)
return { 'until', until_ms }
