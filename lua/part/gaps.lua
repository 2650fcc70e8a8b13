-- part/gaps: the gaps of a room. What is none stops the script. Goes with part/whole.
-- Same as: room::in_redis::answer::gaps

local function read_gaps(text, key)
  local gaps = {}
  for gap in string.gmatch(text, '[^,]+') do
    local first, last, restored = string.match(gap, '^(%d+) (%d+) (%d+)$')
    gaps[#gaps + 1] = { whole(first, key), whole(last, key), whole(restored, key) }
  end
  return gaps
end

-- Those that end behind a place.
local function gaps_behind(gaps, place)
  local behind = {}
  for _, gap in ipairs(gaps) do
    if place < gap[2] then behind[#behind + 1] = gap end
  end
  return behind
end

local function written_gaps(gaps)
  local texts = {}
  for i, gap in ipairs(gaps) do texts[i] = string.format('%d %d %d', unpack(gap)) end
  return table.concat(texts, ',')
end
