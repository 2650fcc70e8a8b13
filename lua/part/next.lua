-- part/next: who is next: those who came back, the numbers of a draw's next places, then the queue.
-- Goes with part/whole.
-- Same as: room::model::call::call
-- `is`: serving (a draw moves it), is_drawn, draw_size, require_presence, open_since
-- `line`: the keys queue, returned and seen; at most so many called and looked_at; present_ms; and
--         numbers of the draw's next places, a space between

local function is_drawing(is)
  return is.is_drawn and is.serving < is.draw_size
end

-- What is no fan or no place, and would be in the ledger for good, stops the script.
local function named(set, fan, place)
  whole(place, set)
  if #fan ~= 16 then error(set .. ': somebody has ' .. #fan .. ' bytes') end
end

-- Takes nobody out yet: says who goes, and how to find them in queue and returned.
local function next_fans(is, now, line)
  local taken = { called = {}, from = {}, absent = {}, absent_from = {},
    returned = 0, -- so many of the first in returned
    drawn = {}, -- these of the queue
    queue = 0, -- and so many of the first that are left in it
    lowest = nil } -- where it goes on then
  local is_asked = is.require_presence == 1 and is.open_since and line.present_ms <= now - is.open_since
  local function is_over()
    return line.called <= #taken.called or line.looked_at <= #taken.called + #taken.absent
  end
  local function call(set, fan, place)
    named(set, fan, place)
    taken.called[#taken.called + 1], taken.from[#taken.from + 1] = fan, place
  end
  local function look_at(fan, place)
    local seen = is_asked and found(redis.call('ZSCORE', line.seen, fan), line.seen)
    if not is_asked or seen and now - seen <= line.present_ms then return call(line.queue, fan, place) end
    named(line.queue, fan, place)
    taken.absent[#taken.absent + 1], taken.absent_from[#taken.absent_from + 1] = fan, place
  end

  local back = 0 < line.called and redis.call('ZRANGE', line.returned, 0, line.called - 1, 'WITHSCORES') or {}
  for i = 1, #back, 2 do call(line.returned, back[i], back[i + 1]) end
  taken.returned = #back / 2

  if is_drawing(is) then
    for number in string.gmatch(line.numbers, '%d+') do
      if is_over() or not is_drawing(is) then break end
      is.serving = is.serving + 1
      local fan = redis.call('ZRANGE', line.queue, number, number, 'BYSCORE', 'LIMIT', 0, 1)[1]
      if fan then
        taken.drawn[#taken.drawn + 1] = fan
        look_at(fan, is.serving .. '')
      end
    end
  end
  if is_drawing(is) then return taken end

  -- one more than may be taken, to see where the queue goes on
  local is_named, most = {}, is_asked and line.looked_at or line.called
  for _, fan in ipairs(taken.drawn) do is_named[fan] = true end
  most = most - #taken.called - #taken.absent
  local queue = redis.call('ZRANGE', line.queue, 0, #taken.drawn + most, 'WITHSCORES')
  for i = 1, #queue, 2 do
    if is_named[queue[i]] then -- already
    elseif is_over() then
      taken.lowest = whole(queue[i + 1], line.queue)
      break
    else
      taken.queue = taken.queue + 1
      look_at(queue[i], queue[i + 1])
    end
  end
  return taken
end
