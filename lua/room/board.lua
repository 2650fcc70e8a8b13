-- room/board: what everybody may see of a room, and what gateways need beside it.
-- Same as: room::model::board::board
-- PARTS: whole
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions, 7 ledger
-- ARGV: none
-- OUT:  {'board', now, issued, waiting, standby, live, uncopied, empty places of the draw, fields of
--       the hash from version to holder} | {'unfenced'}

-- read
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'version',
  'verb_version', 'settings', 'edition', 'generation', 'state', 'serving', 'ceiling', 'gaps',
  'pace_milli', 'spread_milli', 'cause', 'seats_per_fan_milli', 'stock_version', 'stock_free',
  'stock_held', 'stock_sold', 'stock_as_of', 'sold_out_at', 'restoring_until',
  'draw_size', 'draw_seed', 'holder', 'lease_until')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
if room[1] ~= replid then return { 'unfenced' } end
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + whole(room[3], KEYS[1]), whole(room[2], KEYS[1]))

-- the room's own reason to be slow, else the measured one
if room[9] == 'paused' or room[9] == 'restoring' then
  room[15] = room[9]
elseif room[9] == 'open' and maybe(room[18], KEYS[1]) == 0 and 0 < whole(room[19], KEYS[1]) then
  room[15] = 'in_carts'
end
if room[9] ~= 'restoring' then room[23] = '' end
if whole(room[27], KEYS[1]) <= now then room[26] = '' end
-- places of the draw that are still ahead, and those whose number nobody in the queue holds
local empty = room[25] ~= '' and math.max(0, whole(room[24], KEYS[1]) - whole(room[10], KEYS[1])) or 0
if 0 < empty then
  empty = math.max(0, empty - redis.call('ZCOUNT', KEYS[3], '-inf', room[24]))
end
local issued = whole(redis.call('GET', KEYS[2]), KEYS[2])

-- write: the clock only; an HDEL first, so that the board works in a full Redis
redis.call('HDEL', KEYS[1], 'nothing')
redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
return { 'board', now, issued, redis.call('ZCARD', KEYS[3]) + redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[5]),
  redis.call('ZCOUNT', KEYS[6], '(' .. string.format('%d', now), '+inf'),
  redis.call('XLEN', KEYS[7]), empty, unpack(room, 4, 26) }
