-- room/mend_begin: marks a room as being mended, and empties it, but for queue and ledger that count.
-- Same as: room::model::mend::mend
-- PARTS: whole, gaps
-- KEYS: 1 room, 2 seq, 3 queue, 4 returned, 5 standby, 6 admissions, 7 claimed, 8 quota, 9 ledger, 10 seen
-- ARGV: 1 edition, 2 generation, 3 generation whose mend was the last to be finished
-- OUT:  {'done'} | {'stale'}

-- read: no fence here, for this is how a room behind one comes back
local room = redis.call('HMGET', KEYS[1], 'replid', 'last_ms', 'offset_ms', 'mending_replid',
  'mending_edition', 'mending_generation', 'edition', 'generation', 'gaps', 'holder', 'lease_until', 'token',
  'ledger_seq')
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local time = redis.call('TIME')
local told = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.max(told + (found(room[3], KEYS[1]) or 0), found(room[2], KEYS[1]) or 0)
local asked_edition, asked = tonumber(ARGV[1]), tonumber(ARGV[2])
local function known(field) return found(room[field], KEYS[1]) or 0 end
local edition, generation = known(7), known(8)

-- refuse: only a mend that is newer than all that the room has seen begins; its own may begin again
local is_mending = room[4] == replid
local seen_edition = is_mending and known(5) or edition
local seen = is_mending and known(6) or generation
local is_later = seen_edition < asked_edition
  or seen_edition == asked_edition and (seen < asked or is_mending and seen == asked)
if not is_later then
  redis.call('HDEL', KEYS[1], 'nothing')
  redis.call('HSET', KEYS[1], 'last_ms', now, 'offset_ms', now - told)
  return { 'stale' }
end
local lease_until, token = known(11), known(12)
local counts = edition == asked_edition and generation == tonumber(ARGV[3])
local gaps, ledger_seq = read_gaps(counts and room[9] or '', KEYS[1]), counts and known(13) or 0

-- write
for _, k in ipairs({ 4, 5, 6, 7, 8, 10 }) do redis.call('UNLINK', KEYS[k]) end
if not counts then redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[9]) end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'mending_replid', replid, 'mending_edition', asked_edition,
  'mending_generation', asked, 'last_ms', now, 'offset_ms', now - told, 'serving', 0,
  'edition', counts and edition or 0, 'generation', counts and generation or 0,
  'gaps', written_gaps(gaps), 'ledger_seq', ledger_seq,
  'holder', room[10] or '', 'lease_until', lease_until, 'token', token)
return { 'done' }
