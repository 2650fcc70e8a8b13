-- room/revoke: the operator ends admissions; the fans are next in line again, or out.
-- Same as: room::model::claim::revoke
-- PARTS: whole, fans, may, ledger
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
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local ledger = open_ledger(KEYS[7], KEYS[1], { unpack(room, 4, 7) }, KEYS[6])
local fans = read_fans({ unpack(KEYS, 2, 5) }, { unpack(ARGV, 2) })
local out, endings, seen = { 'revoked' }, {}, {}
for i = 2, #ARGV do
  local fan, f, word = ARGV[i], fans[ARGV[i]], 'now'
  local waits = f and (f.number or f.returned)
  local is_over = f and (f.ended or f.until_ms and f.until_ms <= now and not f.standby)
  if not f then word = 'unknown'
  elseif is_over or seen[fan] or waits and ARGV[1] == 'returned' then word = 'before'
  else
    local place = f.standby or found(redis.call('ZSCORE', KEYS[6], fan), KEYS[6])
    if ARGV[1] == 'returned' and not place then error(KEYS[6] .. ': a fan inside has no place') end
    endings[#endings + 1] = { fan, place }
    seen[fan] = true
  end
  out[#out + 1] = word
end

-- write: an HDEL first, so that revoking works in a full Redis
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
for _, ending in ipairs(endings) do
  local fan, place = unpack(ending)
  write_down(ledger, now, 'ended', 'fan', fan, 'why', 'revoked')
  if ARGV[1] == 'returned' then write_down(ledger, now, 'returned', 'fan', fan, 'place', place) end
end
redis.call('HSET', KEYS[1], 'ledger_seq', ledger.seq)
for _, ending in ipairs(endings) do
  local fan, place = unpack(ending)
  for k = 2, 6 do redis.call('ZREM', KEYS[k], fan) end
  if ARGV[1] == 'returned' then redis.call('ZADD', KEYS[3], place, fan) else redis.call('ZADD', KEYS[5], -3, fan) end
end
return out
