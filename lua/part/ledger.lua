-- part/ledger: one entry a change after joining, numbered without a hole.
-- Same as: room::model::ledger::write
-- `last`: what the hash says of ledger_seq, generation, token and serving, in this order

-- Goes before every write. What is no ledger, no number, or (of those that are written and not read
-- before) no set, stops the script here, and nothing is done.
local function open_ledger(key, last, ...)
  redis.call('XLEN', key)
  for _, set in ipairs({ ... }) do redis.call('ZCARD', set) end
  return { key = key, seq = last[1] + 0, generation = last[2] + 0, token = last[3] + 0, serving = last[4] + 0 }
end

local function write_down(ledger, now, change, ...)
  ledger.seq = ledger.seq + 1
  redis.call('XADD', ledger.key, '*', 'seq', ledger.seq, 'at', now, 'generation', ledger.generation,
    'token', ledger.token, 'serving', ledger.serving, 'change', change, ...)
end
