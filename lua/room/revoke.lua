-- room/revoke: the operator ends admissions; the fans are next in line again, or out.
-- Same as: room::model::claim::revoke
-- PARTS: may, ledger
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed, 7 ledger
-- ARGV: 1 'returned' or 'out', 2.. the fans
-- OUT:  {'revoked', word a fan} | {'unfenced'}; the words: 'now' | 'before' | 'unknown'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ledger_seq',
  'generation', 'token', 'serving')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + room[3], tonumber(room[2]))
local ledger = open_ledger(KEYS[7], { unpack(room, 4, 7) }, KEYS[6])
local out, ends, seen = { 'revoked' }, {}, {}
for i = 2, #ARGV do
  local fan = ARGV[i]
  local until_ms = tonumber(redis.call('ZSCORE', KEYS[5], fan))
  local standby = redis.call('ZSCORE', KEYS[4], fan)
  local waits = redis.call('ZSCORE', KEYS[2], fan) or redis.call('ZSCORE', KEYS[3], fan)
  local is_over = until_ms and (until_ms < 0 or until_ms <= now and not standby)
  local word = 'now'
  if not until_ms and not waits then word = 'unknown'
  elseif is_over or seen[fan] or waits and ARGV[1] == 'returned' then word = 'before'
  else
    local place = tonumber(standby or redis.call('ZSCORE', KEYS[6], fan))
    if ARGV[1] == 'returned' and not place then error(KEYS[6] .. ': a fan inside has no place') end
    ends[#ends + 1] = { fan, place }
    seen[fan] = true
  end
  out[#out + 1] = word
end

-- write: an HDEL first, so that revoking works in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
for _, ending in ipairs(ends) do
  local fan, place = ending[1], ending[2]
  for k = 2, 6 do redis.call('ZREM', KEYS[k], fan) end
  write_down(ledger, now, 'ended', 'fan', fan, 'why', 'revoked')
  if ARGV[1] == 'returned' then
    redis.call('ZADD', KEYS[3], place, fan)
    write_down(ledger, now, 'returned', 'fan', fan, 'place', place)
  else
    redis.call('ZADD', KEYS[5], -3, fan)
  end
end
redis.call('HSET', KEYS[1], 'ledger_seq', ledger.seq)
return out
