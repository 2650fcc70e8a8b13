-- room/restore: fans whom the room has forgotten show their passes and stand where they stood.
-- Same as: room::model::restore::restore
-- PARTS: whole, fans, gaps, memory, may, ledger, claim
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed, 7 ledger, 8 seq
-- ARGV: fan, number, edition, generation, place in the draw or ''; five a fan
-- OUT:  {'restored', (word, value) a fan} | {'unfenced'}; the words: 'void' | 'ahead' | 'placeless' |
--       'again' = in the queue again | 'passed' = next, for serving has passed; and as for a claim:
--       'first' until | 'admitted' until | 'waiting' number | 'returned' place | 'used' | 'left' |
--       'revoked' | 'expired' | 'out_of_memory'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ticket_ttl_ms',
  'ledger_seq', 'generation', 'token', 'serving', 'edition', 'gaps', 'draw_size', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local ledger = open_ledger(KEYS[7], KEYS[1], { unpack(room, 5, 8) }, KEYS[6])
local issued, edition = whole(redis.call('GET', KEYS[8]), KEYS[8]), whole(room[9], KEYS[1])
local gaps, size = read_gaps(room[10], KEYS[1]), room[12] ~= '' and whole(room[11], KEYS[1])
local asked, back = {}, {}
for i = 1, #ARGV, 5 do asked[#asked + 1] = ARGV[i] end
local claims = { fans = read_fans({ unpack(KEYS, 2, 5) }, asked), now = now, ttl_ms = whole(room[4], KEYS[1]),
  returned = KEYS[3], standby = KEYS[4], admissions = KEYS[5], claimed = KEYS[6], changes = {} }

-- refuse: by an answer a fan. In a full Redis nobody comes back, but who is there is answered
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
local out, full = { 'restored' }, is_full(KEYS[1], now, told)
local function say(word, value) out[#out + 1], out[#out + 2] = word, value end
for i = 1, #ARGV, 5 do
  local fan, number, said, f = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 4]), claims.fans[ARGV[i]]
  -- of two numbers in the queue the first counts, unless both took part in the draw
  local is_first = not f or f.number and number < f.number and (not size or size < f.number)
  -- the place of a number that took part in a draw is what the asker says, or none
  local place = (not size or size < number) and number or said and 0 < said and said <= size and said
  if tonumber(ARGV[i + 2]) ~= edition or number == 0 then say('void', 0)
  elseif ledger.generation < tonumber(ARGV[i + 3]) or issued < number then say('ahead', 0)
  elseif not is_first then say(claim_one(claims, fan))
  elseif not size and said then say('ahead', 0)
  elseif not place then say('placeless', 0)
  elseif not f and full then say('out_of_memory', 0)
  else
    for _, gap in ipairs(gaps) do
      if gap[1] <= number and number <= gap[2] then gap[3] = gap[3] + 1 end
    end
    local is_passed = place <= ledger.serving
    claims.fans[fan] = is_passed and { returned = place } or { number = number }
    back[#back + 1] = { fan, is_passed and place, number }
    say(is_passed and 'passed' or 'again', 0)
  end
end

-- write
write_claims(claims, ledger)
redis.call('HSET', KEYS[1], 'ledger_seq', ledger.seq, 'gaps', written_gaps(gaps))
for _, returning in ipairs(back) do
  local fan, place, number = unpack(returning)
  if place then redis.call('ZREM', KEYS[2], fan) end
  redis.call('ZADD', KEYS[place and 3 or 2], place or number, fan)
end
return out
