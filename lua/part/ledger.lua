-- part/ledger: one entry a change after joining, numbered without a hole.
-- Goes with part/whole.
-- Same as: room::model::ledger::write
-- `last`: what the hash `room` says of ledger_seq, generation, token and serving, in this order

-- Goes before every write. What is no ledger, no number, or (of those that are written and not read
-- before) no set, stops the script here, and nothing is done.
local function open_ledger(key, room, last, ...)
  redis.call('XLEN', key)
  for _, set in ipairs({ ... }) do redis.call('ZCARD', set) end
  return { key = key, seq = whole(last[1], room), generation = whole(last[2], room), token = whole(last[3], room),
    serving = whole(last[4], room) }
end

local function write_down(ledger, now, change, ...)
  ledger.seq = ledger.seq + 1
  redis.call('XADD', ledger.key, '*', 'seq', ledger.seq, 'at', now, 'generation', ledger.generation,
    'token', ledger.token, 'serving', ledger.serving, 'change', change, ...)
end
