-- room/leave: a fan gives up place or admission. Asking again changes nothing.
-- Same as: room::model::claim::leave
-- PARTS: whole, fans, may, ledger
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed, 7 ledger
-- ARGV: 1 fan
-- OUT:  {'now'} | {'before'} | {'unknown'} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ledger_seq',
  'generation', 'token', 'serving')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local ledger, fan = open_ledger(KEYS[7], KEYS[1], { unpack(room, 4, 7) }, unpack(KEYS, 2, 6)), ARGV[1]
local f = read_fans({ unpack(KEYS, 2, 5) }, ARGV)[fan]
local is_over = f and (f.ended or f.until_ms and f.until_ms <= now and not f.standby)

-- write: an HDEL first, so that the turn can end in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
if not f then return { 'unknown' } end
if is_over then return { 'before' } end
write_down(ledger, now, 'ended', 'fan', fan, 'why', 'left')
for _, k in ipairs({ 2, 3, 4, 6 }) do redis.call('ZREM', KEYS[k], fan) end
redis.call('ZADD', KEYS[5], -2, fan)
redis.call('HSET', KEYS[1], 'ledger_seq', ledger.seq)
return { 'now' }
