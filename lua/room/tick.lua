-- room/tick: one step of an admitter. It takes the lease, passes the hours, calls the next fans.
-- Same as: room::model::tick::tick
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions, 7 quota, 8 ledger
-- ARGV: 1 holder, 2 calls at most, 3 lease_ttl_ms, 4 longest lease that binds, 5 uncopied entries at most,
--       6 thousandths of seats that a fan takes; and as measured: 7 pace_milli, 8 spread_milli,
--       9 cause or '', 10 seats_per_fan_milli
-- OUT:  {'follower', holder} | {'unfenced'} | {'leader', count, serving, token, state, why,
--       ms until the quota frees or -1, waiting, live, issued, ceiling, uncopied}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'holder', 'state',
  'state_after', 'gaps')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + room[3], tonumber(room[2]))
local state, is, names = room[5], {}, { 'lease_until', 'token', 'restoring_until', 'early_at', 'opens_at',
  'closes_at', 'verb_at', 'stock_version', 'stock_free', 'stock_held', 'overruled_stock', 'sold_out_at',
  'stock_guard', 'rate', 'window_ms', 'capacity', 'claim_ms', 'serving', 'ceiling', 'ledger_seq', 'generation' }
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do is[names[i]] = tonumber(value) end
local issued, uncopied = tonumber(redis.call('GET', KEYS[2])) or 0, redis.call('XLEN', KEYS[8])
local waiting = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local live = redis.call('ZCOUNT', KEYS[6], '(' .. string.format('%.0f', now), '+inf')
-- refuse
if room[4] ~= ARGV[1] and now < is.lease_until and is.lease_until <= now + ARGV[4] then
  redis.call('HDEL', KEYS[1], 'last_ms')
  redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
  return { 'follower', room[4] }
end
-- the hours
local function enter(to)
  if state == 'sold_out' and to == 'open' then is.overruled_stock = is.stock_version end
  if to == 'sold_out' then is.sold_out_at = is.sold_out_at or now end
  if to == 'scheduled' or to == 'early' or to == 'open' then is.sold_out_at = nil end
  state, is.restoring_until = to, nil
end
local function has_come(hour) return hour and hour <= now and (not is.verb_at or is.verb_at < hour) end
if state == 'restoring' and (not is.restoring_until or is.restoring_until <= now) then enter(room[6]) end
if is.restoring_until and is.restoring_until <= now then is.restoring_until = nil end
local before_opening = state == 'scheduled' or state == 'early'
if (before_opening or state == 'open' or state == 'paused') and has_come(is.closes_at) then enter('closed')
elseif before_opening and has_come(is.opens_at) then enter('open')
elseif state == 'scheduled' and (has_come(is.early_at) or not is.early_at and not is.opens_at) then enter('early') end
if state == 'open' and is.stock_version and is.stock_free + is.stock_held == 0
  and (not is.overruled_stock or is.overruled_stock < is.stock_version) then enter('sold_out') end
-- how many: a call counts while now - its stamp is at most the window, both ends included
local counted, stale, stamps, calls = 0, {}, {}, {}
local quota = redis.call('HGETALL', KEYS[7])
for i = 1, #quota, 2 do
  local stamp = tonumber(quota[i])
  if is.window_ms < now - stamp then stale[#stale + 1] = quota[i]
  else
    stamps[#stamps + 1], calls[stamp] = stamp, tonumber(quota[i + 1]) or math.huge
    counted = counted + calls[stamp]
  end
end
local asked, rate_left = tonumber(ARGV[2]), math.max(0, is.rate - counted)
local capacity_left, stock_left = math.max(0, is.capacity - live), math.huge
if is.stock_guard == 1 and is.stock_version then
  stock_left = math.max(0, math.ceil((is.stock_free + is.stock_held) * 1000 / ARGV[6]) - live)
end
local stopped = state ~= 'open' and 'state' or tonumber(ARGV[5]) < uncopied and 'unarchived'
local most = stopped and 0 or math.min(asked, rate_left, capacity_left, stock_left)
-- who: the returned by place, then the queue, and one more to see where the queue goes on
local back = 0 < most and redis.call('ZRANGE', KEYS[4], 0, most - 1, 'WITHSCORES') or {}
local line = redis.call('ZRANGE', KEYS[3], 0, most - #back / 2, 'WITHSCORES')
local from_line = math.min(#line / 2, most - #back / 2)
local count = #back / 2 + from_line
local fans, numbers, slots, places, until_ms = {}, {}, {}, {}, now + is.claim_ms
for i = 1, 2 * count, 2 do
  local fan, place = back[i] or line[i - #back], back[i + 1] or line[i + 1 - #back]
  fans[#fans + 1], numbers[#numbers + 1] = fan, place
  slots[i], slots[i + 1], places[i], places[i + 1] = until_ms, fan, place, fan
end
local passed = line[2 * from_line + 2] and line[2 * from_line + 2] - 1 or issued
local gaps = room[7]
if not is.restoring_until and is.serving < passed then
  is.serving = passed
  gaps = string.gsub(gaps, '%d+ (%d+) %d+,?', function(last) return tonumber(last) <= passed and '' or nil end)
end
waiting, live = waiting - count, live + count
local why = stopped or asked <= count and 'enough' or waiting == 0 and 'empty'
  or rate_left <= count and 'rate' or capacity_left <= count and 'capacity' or 'stock'
-- write: an HDEL first, so that calling works in a full Redis
redis.call('HDEL', KEYS[1], 'last_ms')
if 0 < #stale then redis.call('HDEL', KEYS[7], unpack(stale)) end
if room[4] ~= ARGV[1] then is.token = is.token + 1 end
if 0 < count then
  local slot = math.max(1, math.floor(is.window_ms / 1000))
  local stamp = now + slot - 1 - now % slot -- merged, and stamped late: never too generous
  if not calls[stamp] then stamps[#stamps + 1] = stamp end
  calls[stamp], counted = (calls[stamp] or 0) + count, counted + count
  is.ledger_seq, uncopied = is.ledger_seq + 1, uncopied + 1
  if 0 < #back then redis.call('ZREMRANGEBYRANK', KEYS[4], 0, #back / 2 - 1) end
  if 0 < from_line then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, from_line - 1) end
  redis.call('ZADD', KEYS[5], unpack(places))
  redis.call('ZADD', KEYS[6], unpack(slots))
  redis.call('HINCRBY', KEYS[7], stamp, count)
  redis.call('XADD', KEYS[8], '*', 'seq', is.ledger_seq, 'at', now, 'generation', is.generation, 'token', is.token,
    'serving', is.serving, 'change', 'called', 'fans', table.concat(fans), 'numbers', table.concat(numbers, ' '),
    'until', until_ms, 'rate', is.rate, 'window_ms', is.window_ms, 'capacity', is.capacity, 'live', live,
    'waiting', waiting, 'why', why)
end
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'holder', ARGV[1], 'token', is.token,
  'lease_until', now + ARGV[3], 'state', state, 'restoring_until', is.restoring_until or '', 'serving', is.serving,
  'overruled_stock', is.overruled_stock or '', 'sold_out_at', is.sold_out_at or '', 'gaps', gaps,
  'ledger_seq', is.ledger_seq, 'pace_milli', ARGV[7], 'spread_milli', ARGV[8], 'cause', ARGV[9],
  'seats_per_fan_milli', ARGV[10])
-- when the quota next frees something
local free_in_ms = why == 'rate' and 0 < is.rate and 0 or -1
if free_in_ms == 0 then
  table.sort(stamps)
  for _, stamp in ipairs(stamps) do
    if counted < is.rate then break end
    counted = calls[stamp] == math.huge and 0 or counted - calls[stamp]
    free_in_ms = math.max(0, stamp + is.window_ms + 1 - now)
  end
end
return { 'leader', count, is.serving, is.token, state, why, free_in_ms, waiting, live, issued, is.ceiling, uncopied }
