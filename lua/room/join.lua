-- room/join: fans take numbers. Asking again gives the same number.
-- Same as: room::model::join::join
-- PARTS: may
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions
-- ARGV: 1 a letter a fan: k = the room may know them, m = minted by this request; 2.. the fans
-- OUT:  {'joined', (word, value) a fan} | {'unfenced'}; the words:
--       'new' number | 'kept' number | 'drawn' place | 'admitted' until | 'scheduled' ms or -1 |
--       'used' | 'left' | 'revoked' | 'expired' | 'busy' | 'full' | 'sold_out' | 'closed' | 'off'

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'state', 'early_at',
  'opens_at', 'waiting_max', 'ceiling', 'draw_size', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + room[3], tonumber(room[2]))
local issued = redis.call('GET', KEYS[2]) + 0 -- a room that has lost it gives no numbers
local waiting = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local known, at = {}, {}
for i = 2, #ARGV do
  if string.sub(ARGV[1], i - 1, i - 1) == 'k' then known[#known + 1] = ARGV[i] end
end
if 0 < #known then
  local function find(k) -- nobody is looked up where nobody is
    return 0 < redis.call('ZCARD', KEYS[k]) and redis.call('ZMSCORE', KEYS[k], unpack(known)) or {}
  end
  local in_queue, in_returned, in_standby, in_admissions = find(3), find(4), find(5), find(6)
  local size = room[10] ~= '' and tonumber(room[9]) or 0
  for i, fan in ipairs(known) do
    local place, until_ms = tonumber(in_returned[i] or in_standby[i]), tonumber(in_admissions[i])
    if in_queue[i] then
      at[fan] = { 'kept', tonumber(in_queue[i]) }
    elseif place then
      at[fan] = { place <= size and 'drawn' or 'kept', place }
    elseif until_ms and now < until_ms then
      at[fan] = { 'admitted', until_ms }
    elseif until_ms then
      at[fan] = { ({ [-1] = 'used', [-2] = 'left', [-3] = 'revoked' })[until_ms] or 'expired', 0 }
    end
  end
end

-- refuse
local begins = tonumber(room[5]) or tonumber(room[6])
local refused = ({ early = false, open = false, paused = false, restoring = false,
  scheduled = { 'scheduled', begins and math.max(0, begins - now) or -1 },
  sold_out = { 'sold_out', 0 }, closed = { 'closed', 0 }, off = { 'off', 0 } })[room[4]]
if refused == nil then error(KEYS[1] .. ': state is ' .. tostring(room[4])) end
local waiting_max, ceiling = tonumber(room[7]), tonumber(room[8])
local out, number_of, scores, new = { 'joined' }, {}, {}, 0
for i = 2, #ARGV do
  local fan, word, value, answer = ARGV[i], 'new', 0, at[ARGV[i]] or refused
  if answer then word, value = answer[1], answer[2]
  elseif number_of[fan] then word, value = 'kept', number_of[fan]
  elseif waiting_max <= waiting + new then word = 'full'
  elseif ceiling <= issued + new then word = 'busy'
  else
    new, value = new + 1, issued + new + 1
    number_of[fan] = value
    scores[2 * new - 1], scores[2 * new] = string.format('%d', value), fan -- as a number it would be slow
  end
  out[#out + 1], out[#out + 2] = word, value
end

-- write: in a full Redis nobody joins, but who has joined is answered
if new == 0 then redis.call('HDEL', KEYS[1], 'nothing') else must_be_allowed(KEYS[3], 'INCRBY', 'ZADD') end
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
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
