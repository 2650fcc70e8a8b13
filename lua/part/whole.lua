-- part/whole: numbers as they are kept: whole, from 0, below 2^53. What is none stops the script, and is not
-- repeated, for it may be anybody's words.
-- Same as: room::in_redis::reply::whole
-- `key`: where it stands

local function whole(said, key)
  local number = said and string.find(said, '^%d+$') and tonumber(said)
  if number and number < 2 ^ 53 then return number end
  error(key .. ': what is to be a number is none of ours')
end

-- A field of a hash that is there, and may be empty.
local function maybe(said, key)
  if said ~= '' then return whole(said, key) end
end

-- A score or a field that may be missing.
local function found(said, key)
  if said then return whole(said, key) end
end
