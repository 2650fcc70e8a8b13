-- room/restore: fans whom the room has forgotten show their passes and stand where they stood.
-- Same as: room::model::restore::restore
-- PARTS: may, ledger
-- KEYS: 1 room, 2 queue, 3 returned, 4 standby, 5 admissions, 6 claimed, 7 ledger, 8 seq
-- ARGV: fan, number, edition, generation, place in the draw or ''; five a fan
-- OUT:  {'restored', (word, value) a fan} | {'unfenced'}; the words: 'void' | 'ahead' | 'placeless' |
--       'again' = in the queue again | 'passed' = next, for serving has passed; and as for a claim:
--       'first' until | 'admitted' until | 'waiting' number | 'returned' place | 'used' | 'left' |
--       'revoked' | 'expired'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'ticket_ttl_ms',
  'ledger_seq', 'generation', 'token', 'serving', 'edition', 'gaps', 'draw_size', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + room[3], tonumber(room[2]))
local ledger, issued = open_ledger(KEYS[7], { unpack(room, 5, 8) }, KEYS[6]), redis.call('GET', KEYS[8]) + 0
local edition, generation, serving = room[9] + 0, ledger.generation, ledger.serving
local found, fans, gaps, sets, text = {}, {}, {}, {}, {}
for i = 1, #ARGV, 5 do found[#found + 1] = ARGV[i] end
for k = 2, 5 do sets[k] = ARGV[1] and redis.call('ZMSCORE', KEYS[k], unpack(found)) end
for i, fan in ipairs(found) do
  local f = { number = tonumber(sets[2][i]), returned = tonumber(sets[3][i]),
    standby = tonumber(sets[4][i]), until_ms = tonumber(sets[5][i]) }
  if next(f) then fans[fan] = f end
end
for first, last, restored in string.gmatch(room[10], '(%d+) (%d+) (%d+)') do
  gaps[#gaps + 1] = { tonumber(first), tonumber(last), tonumber(restored) }
end

-- refuse: by an answer a fan
local out, back, changes = { 'restored' }, {}, {}
local function say(word, value) out[#out + 1], out[#out + 2] = word, value end
local ended = { [-1] = 'used', [-2] = 'left', [-3] = 'revoked' }
local size = room[12] ~= '' and tonumber(room[11])
for i = 1, #ARGV, 5 do
  local fan, number, said, f = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 4]), fans[ARGV[i]]
  -- the place of a number that took part in a draw is what the asker says, or none
  local place = (not size or size < number) and number or said and 0 < said and said <= size and said
  if tonumber(ARGV[i + 2]) ~= edition or number == 0 then say('void', 0)
  elseif generation < tonumber(ARGV[i + 3]) or issued < number then say('ahead', 0)
  elseif not f and not size and said then say('ahead', 0)
  elseif not f and not place then say('placeless', 0)
  elseif not f then
    for _, gap in ipairs(gaps) do
      if gap[1] <= number and number <= gap[2] then gap[3] = gap[3] + 1 end
    end
    local is_passed = place <= serving
    fans[fan] = is_passed and { returned = place } or { number = number }
    back[#back + 1] = { is_passed and 3 or 2, is_passed and place or number, fan }
    say(is_passed and 'passed' or 'again', 0)
  elseif f.number then say('waiting', f.number)
  elseif f.returned then say('returned', f.returned)
  elseif ended[f.until_ms] then say(ended[f.until_ms], 0)
  elseif f.standby then
    local is_first = now < f.until_ms
    changes[#changes + 1] = { fan, f.standby, is_first and now + room[4] }
    fans[fan] = is_first and { until_ms = now + room[4] } or { returned = f.standby }
    say(is_first and 'first' or 'returned', is_first and now + room[4] or f.standby)
  else say(now < f.until_ms and 'admitted' or 'expired', now < f.until_ms and f.until_ms or 0) end
end

-- write: in a full Redis nobody comes back, but who is there is answered
must_be_allowed(KEYS[1], 'HSET', 'ZREM', 'ZADD', 'XADD')
for i, gap in ipairs(gaps) do text[i] = string.format('%d %d %d', unpack(gap)) end
if #back == 0 then redis.call('HDEL', KEYS[1], 'nothing') end
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'ledger_seq', ledger.seq + #changes,
  'gaps', table.concat(text, ','))
for _, put in ipairs(back) do redis.call('ZADD', KEYS[put[1]], put[2], put[3]) end
for _, change in ipairs(changes) do
  local fan, place, until_ms = unpack(change)
  redis.call('ZREM', KEYS[4], fan)
  if until_ms then redis.call('ZADD', KEYS[5], until_ms, fan) else redis.call('ZREM', KEYS[5], fan) end
  redis.call('ZADD', KEYS[until_ms and 6 or 3], place, fan)
  local what, as = until_ms and 'claimed' or 'returned', until_ms and 'until' or 'place'
  write_down(ledger, now, what, 'fan', fan, as, until_ms or place)
end
return out
