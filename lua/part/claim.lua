-- part/claim: a called fan shows up. Goes with part/fans and part/ledger.
-- Same as: room::model::claim::claim_one
-- `claims`: fans as they were read; now; ttl_ms of a ticket; the keys returned, standby, admissions and claimed;
--           changes: what has come of it so far

-- The answer to a fan, as a word and a value.
local function claim_one(claims, fan)
  local f, now = claims.fans[fan], claims.now
  if not f then return 'unknown', 0
  elseif f.number then return 'waiting', f.number
  elseif f.returned then return 'returned', f.returned
  elseif f.ended then return f.ended, 0
  elseif not f.until_ms then error(claims.admissions .. ': somebody was called and has no slot')
  elseif f.standby then
    local until_ms = now < f.until_ms and now + claims.ttl_ms or nil
    table.insert(claims.changes, { fan, f.standby, until_ms })
    claims.fans[fan] = until_ms and { until_ms = until_ms } or { returned = f.standby }
    return until_ms and 'first' or 'returned', until_ms or f.standby
  elseif now < f.until_ms then return 'admitted', f.until_ms
  else return 'expired', 0 end
end

local function write_claims(claims, ledger)
  for _, change in ipairs(claims.changes) do
    local fan, place, until_ms = unpack(change)
    if until_ms then write_down(ledger, claims.now, 'claimed', 'fan', fan, 'until', until_ms)
    else write_down(ledger, claims.now, 'returned', 'fan', fan, 'place', place) end
  end
  for _, change in ipairs(claims.changes) do
    local fan, place, until_ms = unpack(change)
    redis.call('ZREM', claims.standby, fan)
    if until_ms then redis.call('ZADD', claims.admissions, until_ms, fan)
    else redis.call('ZREM', claims.admissions, fan) end
    redis.call('ZADD', until_ms and claims.claimed or claims.returned, place, fan)
  end
end
