-- room/mend_finish: writes the rest and lets the room answer again. Asking again changes nothing.
-- Same as: room::model::mend::mend
-- PARTS: whole, gaps, enter
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 quota, 6 ledger
-- ARGV: 1 generation, 2 state, 3 serving, 4 last number known to be issued, 5 SQL's old ceiling,
--       6 SQL's new ceiling, 7 restoring_ms, 8 room time as SQL last saw it, 9 draws: 1 or 0,
--       10 draw_size or '', 11 draw_seed or '', 12.. fields of the hash and their values
-- OUT:  {'done'} | {'stale'}

-- read
local room = redis.call('HMGET', KEYS[1], 'mending_replid', 'last_ms', 'offset_ms',
  'mending_edition', 'mending_generation', 'replid', 'generation', 'serving', 'gaps')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + (found(room[3], KEYS[1]) or 0), found(room[2], KEYS[1]) or 0)
local generation = tonumber(ARGV[1])

-- refuse: a mender that slept, or a second loss; but an answer may have been lost
if room[1] ~= replid or found(room[5], KEYS[1]) ~= generation then
  if room[2] then
    redis.call('HDEL', KEYS[1], 'nothing')
    redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
  end
  local is_done = room[6] == replid and found(room[7], KEYS[1]) == generation
  return { is_done and 'done' or 'stale' }
end

-- what the numbers must be: the greatest of all that is known is safe
now = math.max(now, tonumber(ARGV[8]))
local took_part = tonumber(ARGV[10]) or 0
local known = math.max(tonumber(ARGV[4]), found(redis.call('GET', KEYS[2]), KEYS[2]) or 0, took_part)
local serving = math.max(whole(room[8], KEYS[1]), tonumber(ARGV[3]))
local issued = math.max(tonumber(ARGV[5]), known, serving)
local gaps = gaps_behind(read_gaps(room[9], KEYS[1]), math.max(serving, took_part))
if known < issued and serving < issued then
  gaps[#gaps + 1] = { known + 1, issued, 0 }
end
local is = { state = 'early', serving = serving, draws = tonumber(ARGV[9]), is_drawn = ARGV[11] ~= '' }
local restoring_ms = tonumber(ARGV[7])
enter(is, now, ARGV[2])
-- in a draw numbers say nothing of places
local passed_to = is.is_drawn and serving < took_part and 0 or serving
local passed = redis.call('ZRANGE', KEYS[3], '-inf', passed_to, 'BYSCORE', 'WITHSCORES')
for i = 1, #passed, 2 do whole(passed[i + 1], KEYS[3]) end

-- write: a ZREM first, so that a full Redis is mended; the replication id last, for it opens the room
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', passed_to)
for i = 1, #passed, 2 do redis.call('ZADD', KEYS[4], passed[i + 1], passed[i]) end
redis.call('SET', KEYS[2], issued)
redis.call('DEL', KEYS[5], KEYS[6])
if 0 < restoring_ms then
  redis.call('HSET', KEYS[5], now, 'burned') -- nobody knows the calls of the last window
  is.restoring_until, is.opening, is.open_since = now + restoring_ms, nil, nil
  if ARGV[2] == 'early' or ARGV[2] == 'open' or ARGV[2] == 'paused' then is.state = 'restoring' end
end
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told, 'edition', room[4],
  'generation', generation, 'serving', serving, 'ceiling', math.max(tonumber(ARGV[6]), issued),
  'gaps', written_gaps(gaps), 'state_after', ARGV[2], 'draw_size', ARGV[10], 'draw_seed', ARGV[11],
  'verb_at', '', 'ledger_seq', 0, 'pace_milli', 0, 'spread_milli', 0, 'cause', '',
  'seats_per_fan_milli', 0, entered(is))
redis.call('HDEL', KEYS[1], 'mending_replid', 'mending_edition', 'mending_generation')
redis.call('HSET', KEYS[1], 'replid', replid, unpack(ARGV, 12))
return { 'done' }
