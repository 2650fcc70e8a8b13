-- room/claim: called fans show up. The first claim starts the admission; later than the slot: next.
-- Same as: room::model::claim::claim
-- PARTS: whole, fans, may, ledger, claim
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed, 7 ledger
-- ARGV: 1.. the fans
-- OUT:  {'claimed', (word, value) a fan} | {'unfenced'}; the words:
--       'first' until | 'admitted' until | 'waiting' number | 'returned' place | 'unknown' |
--       'used' | 'left' | 'revoked' | 'expired'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ticket_ttl_ms',
  'ledger_seq', 'generation', 'token', 'serving')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local ledger = open_ledger(KEYS[7], KEYS[1], { unpack(room, 5, 8) }, KEYS[6])
local claims = { fans = read_fans({ unpack(KEYS, 2, 5) }, ARGV), now = now, ttl_ms = whole(room[4], KEYS[1]),
  returned = KEYS[3], standby = KEYS[4], admissions = KEYS[5], claimed = KEYS[6], changes = {} }

-- refuse: by an answer a fan
local out = { 'claimed' }
for _, fan in ipairs(ARGV) do out[#out + 1], out[#out + 2] = claim_one(claims, fan) end

-- write: an HDEL first, so that claiming works in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
write_claims(claims, ledger)
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'ledger_seq', ledger.seq)
return out
