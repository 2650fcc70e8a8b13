-- part/fans: how fans stand. Goes with part/whole.
-- Same as: room::model::line::standing

local ENDED = { ['-1'] = 'used', ['-2'] = 'left', ['-3'] = 'revoked' }

-- When a slot or an admission ends; none where its turn is over.
local function ends(said, key)
  if not ENDED[said] then return found(said, key) end
end

-- Those whom the room knows: number in the queue, place in returned or standby, until_ms, how it ended.
-- `sets`: the keys queue, returned, standby and admissions. Nobody is looked up where nobody is.
local function read_fans(sets, fans)
  local scores, known = {}, {}
  for s, set in ipairs(sets) do
    local is_empty = #fans == 0 or redis.call('ZCARD', set) == 0
    scores[s] = is_empty and {} or redis.call('ZMSCORE', set, unpack(fans))
  end
  for i, fan in ipairs(fans) do
    local number, returned, standby, slot = scores[1][i], scores[2][i], scores[3][i], scores[4][i]
    if number or returned or standby or slot then
      known[fan] = { number = found(number, sets[1]), returned = found(returned, sets[2]),
        standby = found(standby, sets[3]), until_ms = ends(slot, sets[4]), ended = ENDED[slot] }
    end
  end
  return known
end
