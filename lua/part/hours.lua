-- part/hours: moves a room to the state that the time asks for. Goes with part/enter.
-- Same as: room::model::schedule::pass_hours
-- `is`: as for entering a state; and state_after, early_at, opens_at, closes_at, verb_at, stock_free,
--       stock_held

local STATES = { scheduled = true, early = true, open = true, paused = true, sold_out = true, closed = true,
  restoring = true, off = true }

local function due(is, now)
  local function has_come(hour) return hour and hour <= now and (not is.verb_at or is.verb_at < hour) end
  local before_opening = is.state == 'scheduled' or is.state == 'early'
  local may_close = before_opening or is.state == 'open' or is.state == 'paused'
  if may_close and has_come(is.closes_at) then return 'closed' end
  if before_opening and has_come(is.opens_at) or is.opening then return 'open' end
  if is.state == 'scheduled' and has_come(is.early_at) then return 'early' end
  -- the operator took the schedule away
  if is.state == 'scheduled' and not is.early_at and not is.opens_at then return 'early' end
  return is.state
end

local function pass_hours(is, now)
  if not STATES[is.state] then error('a room has no such state') end
  if is.state == 'restoring' and (not is.restoring_until or is.restoring_until <= now) then
    enter(is, now, is.state_after)
  end
  if is.restoring_until and is.restoring_until <= now then is.restoring_until = nil end
  local to = due(is, now)
  local waits_for_draw = is.opening and to == 'open' and needs_draw(is)
  if to ~= is.state and not waits_for_draw then enter(is, now, to) end
  if is.state == 'open' and is.stock_version and is.stock_free + is.stock_held == 0
    and (not is.overruled_stock or is.overruled_stock < is.stock_version) then
    enter(is, now, 'sold_out')
  end
end
