-- room/tick: one step of an admitter. It takes the lease, passes the hours, calls the next fans.
-- Same as: room::model::tick::tick
-- PARTS: whole, gaps, enter, hours, quota, next, may, ledger
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions, 7 quota, 8 ledger, 9 seen
-- ARGV: 1 holder, 2 calls at most, 3 lease_ttl_ms, 4 longest lease that binds, 5 uncopied entries at most,
--       6 thousandths of seats that a fan takes; as measured: 7 pace_milli, 8 spread_milli,
--       9 cause or '', 10 seats_per_fan_milli; 11 fans looked at at most, 12 how long who showed up is
--       there; while a draw is not through: 13 seed, 14 serving, 15 numbers of the next places, else ''
-- OUT:  {'follower', holder} | {'unfenced'} | {'leader', count, serving, token, state, why,
--       ms until the quota frees or -1, waiting, live, issued, ceiling, uncopied, opening 1 or 0,
--       draw_size or '', draw_seed or ''}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'holder', 'state',
  'state_after', 'gaps', 'draw_seed')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))
for i = 4, 8 do room[i] = room[i] .. '' end -- a field that is missing stops the tick here
local gaps, is, names = read_gaps(room[7], KEYS[1]),
  { state = room[5], state_after = room[6], is_drawn = room[8] ~= '' },
  { 'lease_until', 'token', 'stock_guard', 'rate', 'window_ms', 'capacity', 'claim_ms', 'serving', 'ceiling',
    'ledger_seq', 'generation', 'draws', 'require_presence', -- and these may be empty:
    'restoring_until', 'early_at', 'opens_at', 'closes_at', 'verb_at', 'stock_version', 'stock_free',
    'stock_held', 'overruled_stock', 'sold_out_at', 'draw_size', 'opening', 'open_since' }
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
  if i <= 13 or value ~= '' then is[names[i]] = whole(value, KEYS[1]) end -- and so does what is no number
end
local last = { is.ledger_seq, is.generation, is.token, is.serving }
local issued, ledger = whole(redis.call('GET', KEYS[2]), KEYS[2]), open_ledger(KEYS[8], KEYS[1], last, KEYS[5])
local uncopied = redis.call('XLEN', KEYS[8])
local waiting = redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4])
local live = redis.call('ZCOUNT', KEYS[6], '(' .. string.format('%d', now), '+inf')
local looked_at, present_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local gone = redis.call('ZCOUNT', KEYS[9], '-inf', '(' .. string.format('%d', now - present_ms))

-- refuse
if room[4] ~= ARGV[1] and now < is.lease_until and is.lease_until <= now + ARGV[4] then
  redis.call('HDEL', KEYS[1], 'nothing')
  redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
  return { 'follower', room[4] }
end

-- how many
pass_hours(is, now)
local quota = read_quota(KEYS[7], is.window_ms, now)
local asked, rate_left = tonumber(ARGV[2]), math.max(0, is.rate - quota.counted)
local capacity_left, stock_left = math.max(0, is.capacity - live), math.huge
if is.stock_guard == 1 and is.stock_version then
  stock_left = math.max(0, math.ceil((is.stock_free + is.stock_held) * 1000 / ARGV[6]) - live)
end
local is_elsewhere = ARGV[13] ~= '' and (ARGV[13] ~= room[8] or tonumber(ARGV[14]) ~= is.serving)
local stopped = is.state ~= 'open' and 'state' or tonumber(ARGV[5]) < uncopied and 'unarchived'
  or is_elsewhere and 'moved'
local most = stopped and 0 or math.min(asked, rate_left, capacity_left, stock_left)

-- who
local taken = next_fans(is, now, { queue = KEYS[3], returned = KEYS[4], seen = KEYS[9], called = most,
  looked_at = looked_at, present_ms = present_ms, numbers = ARGV[15] })
local count, passed = #taken.called, taken.lowest and taken.lowest - 1 or issued
local waits_for_draw = needs_draw(is) and is.state ~= 'open'
local stands = is.restoring_until or waits_for_draw or is_drawing(is)
if not stands and is.serving < passed then
  is.serving, gaps = passed, gaps_behind(gaps, passed)
end
waiting, live = waiting - count - #taken.absent, live + count
local why = stopped or asked <= count and 'enough' or waiting == 0 and 'empty' or rate_left <= count and 'rate'
  or capacity_left <= count and 'capacity' or stock_left <= count and 'stock' or 'looked'

-- write: an HDEL first, so that calling works in a full Redis
must_be_allowed(KEYS[1], 'HINCRBY', 'ZREMRANGEBYRANK', 'ZREM', 'ZADD', 'XADD', 'HSET')
redis.call('HDEL', KEYS[1], 'nothing')
if room[4] ~= ARGV[1] then is.token = is.token + 1 end
ledger.token, ledger.serving = is.token, is.serving
local until_ms = now + is.claim_ms
local function note(change, fans, from, ...)
  if #fans == 0 then return end
  write_down(ledger, now, change, 'fans', table.concat(fans), 'places', table.concat(from, ' '), ...)
  uncopied = uncopied + 1
end
note('called', taken.called, taken.from, 'until', until_ms, 'rate', is.rate, 'window_ms', is.window_ms,
  'capacity', is.capacity, 'live', live, 'waiting', waiting, 'why', why)
note('absent', taken.absent, taken.absent_from)
if 0 < #quota.stale then redis.call('HDEL', KEYS[7], unpack(quota.stale)) end
if 0 < count then spend_quota(KEYS[7], quota, is.window_ms, now, count) end
if 0 < gone then redis.call('ZREMRANGEBYRANK', KEYS[9], 0, math.min(gone, looked_at) - 1) end
if 0 < taken.returned then redis.call('ZREMRANGEBYRANK', KEYS[4], 0, taken.returned - 1) end
if 0 < #taken.drawn then redis.call('ZREM', KEYS[3], unpack(taken.drawn)) end
if 0 < taken.queue then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, taken.queue - 1) end
local function put(fans, from, until_ms)
  if #fans == 0 then return end
  local slots, places = {}, {}
  for i, fan in ipairs(fans) do
    slots[2 * i - 1], slots[2 * i], places[2 * i - 1], places[2 * i] = until_ms, fan, from[i], fan
  end
  redis.call('ZADD', KEYS[5], unpack(places))
  redis.call('ZADD', KEYS[6], unpack(slots))
  redis.call('ZREM', KEYS[9], unpack(fans))
end
put(taken.called, taken.from, until_ms)
put(taken.absent, taken.absent_from, now)
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'holder', ARGV[1], 'token', is.token,
  'lease_until', now + ARGV[3], 'serving', is.serving, 'gaps', written_gaps(gaps), 'ledger_seq', ledger.seq,
  'pace_milli', ARGV[7], 'spread_milli', ARGV[8], 'cause', ARGV[9], 'seats_per_fan_milli', ARGV[10], entered(is))
local free_in_ms = why == 'rate' and quota_free_in_ms(quota, is.rate, is.window_ms, now) or -1
return { 'leader', count, is.serving, is.token, is.state, why, free_in_ms, waiting, live, issued, is.ceiling,
  uncopied, is.opening or 0, is.draw_size or '', room[8] }
