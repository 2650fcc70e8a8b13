-- room/join: fans take numbers. Asking again gives the same number.
-- Same as: room::model::join::join
-- PARTS: whole, fans, memory, may
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions
-- ARGV: 1 a letter a fan: k = the room may know them, m = minted by this request; 2.. the fans
-- OUT:  {'joined', (word, value) a fan} | {'unfenced'}; the words:
--       'new' number | 'kept' number | 'drawn' place | 'admitted' until | 'scheduled' ms or -1 |
--       'used' | 'left' | 'revoked' | 'expired' | 'busy' | 'full' | 'sold_out' | 'closed' | 'off' |
--       'out_of_memory'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'state', 'early_at',
  'opens_at', 'waiting_max', 'ceiling', 'draw_size', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
local issued = whole(redis.call('GET', KEYS[2]), KEYS[2]) -- a room that has lost it gives no numbers
local waiting = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local waiting_max, ceiling = whole(room[7], KEYS[1]), whole(room[8], KEYS[1])
local size = room[10] ~= '' and whole(room[9], KEYS[1]) or 0
local early_at, opens_at = maybe(room[5], KEYS[1]), maybe(room[6], KEYS[1])
local known, at = {}, {}
for i = 2, #ARGV do
  if string.sub(ARGV[1], i - 1, i - 1) == 'k' then known[#known + 1] = ARGV[i] end
end
for fan, f in pairs(read_fans({ unpack(KEYS, 3, 6) }, known)) do
  local place = f.returned or f.standby
  if f.number then at[fan] = { 'kept', f.number }
  elseif place then at[fan] = { place <= size and 'drawn' or 'kept', place }
  elseif f.ended then at[fan] = { f.ended, 0 }
  elseif now < f.until_ms then at[fan] = { 'admitted', f.until_ms }
  else at[fan] = { 'expired', 0 } end
end

-- refuse
local begins = early_at or opens_at
local refused = ({ early = false, open = false, paused = false, restoring = false,
  scheduled = { 'scheduled', begins and math.max(0, begins - now) or -1 },
  sold_out = { 'sold_out', 0 }, closed = { 'closed', 0 }, off = { 'off', 0 } })[room[4]]
if refused == nil then error(KEYS[1] .. ': a room has no such state') end

-- write: in a full Redis nobody joins, but who has joined is answered
must_be_allowed(KEYS[3], 'INCRBY', 'ZADD')
local full = is_full(KEYS[1], now, told)
local out, number_of, scores, new = { 'joined' }, {}, {}, 0
for i = 2, #ARGV do
  local fan, word, value, answer = ARGV[i], 'new', 0, at[ARGV[i]] or refused
  if answer then word, value = answer[1], answer[2]
  elseif number_of[fan] then word, value = 'kept', number_of[fan]
  elseif waiting_max <= waiting + new then word = 'full'
  elseif ceiling <= issued + new then word = 'busy'
  elseif full then word = 'out_of_memory'
  else
    new, value = new + 1, issued + new + 1
    number_of[fan] = value
    scores[2 * new - 1], scores[2 * new] = string.format('%d', value), fan -- as a number it would be slow
  end
  out[#out + 1], out[#out + 2] = word, value
end
if new == 0 then return out end
redis.call('INCRBY', KEYS[2], new)
if redis.call('ZADD', KEYS[3], 'NX', unpack(scores)) < new then
  -- somebody said to be minted was in the queue: the number they have counts
  for i = 2, #ARGV do
    local number = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[i]))
    if out[2 * i - 2] == 'new' and number ~= out[2 * i - 1] then
      out[2 * i - 2], out[2 * i - 1] = 'kept', number
    end
  end
end
return out
