-- room/claim: called fans show up. The first claim starts the admission; later than the slot: next.
-- Same as: room::model::claim::claim
-- PARTS: may, ledger
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
local now = math.max(told + room[3], tonumber(room[2]))
local ledger = open_ledger(KEYS[7], { unpack(room, 5, 8) }, KEYS[6])
local found, fans = {}, {}
for k = 2, 5 do found[k] = ARGV[1] and redis.call('ZMSCORE', KEYS[k], unpack(ARGV)) end
for i, fan in ipairs(ARGV) do
  fans[fan] = {
    number = tonumber(found[2][i]), returned = tonumber(found[3][i]),
    standby = tonumber(found[4][i]), until_ms = tonumber(found[5][i]),
  }
end

-- refuse: by an answer a fan
local out, changes = { 'claimed' }, {}
local function say(word, value) out[#out + 1], out[#out + 2] = word, value end
local ended = { [-1] = 'used', [-2] = 'left', [-3] = 'revoked' }
for _, fan in ipairs(ARGV) do
  local f = fans[fan]
  if f.number then say('waiting', f.number)
  elseif f.returned then say('returned', f.returned)
  elseif not f.until_ms then say('unknown', 0)
  elseif ended[f.until_ms] then say(ended[f.until_ms], 0)
  elseif f.standby and now < f.until_ms then
    local until_ms = now + room[4]
    changes[#changes + 1] = { fan, 'claimed', f.standby, until_ms }
    fans[fan] = { until_ms = until_ms }
    say('first', until_ms)
  elseif f.standby then
    changes[#changes + 1] = { fan, 'returned', f.standby }
    fans[fan] = { returned = f.standby }
    say('returned', f.standby)
  elseif now < f.until_ms then say('admitted', f.until_ms)
  else say('expired', 0) end
end

-- write: an HDEL first, so that claiming works in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'ledger_seq', ledger.seq + #changes)
for _, change in ipairs(changes) do
  local fan, what, place, until_ms = unpack(change)
  redis.call('ZREM', KEYS[4], fan)
  if what == 'claimed' then
    redis.call('ZADD', KEYS[5], until_ms, fan)
    redis.call('ZADD', KEYS[6], place, fan)
    write_down(ledger, now, what, 'fan', fan, 'until', until_ms)
  else
    redis.call('ZREM', KEYS[5], fan)
    redis.call('ZADD', KEYS[3], place, fan)
    write_down(ledger, now, what, 'fan', fan, 'place', place)
  end
end
return out
