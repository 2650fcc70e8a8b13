-- part/enter: a room enters the state that was asked for; where a draw is to come, opening waits for it.
-- Same as: room::model::schedule::enter
-- `is`: state, serving, draws (1: the show draws), is_drawn; and where there are such: opening,
--       open_since, stock_version, overruled_stock, sold_out_at, restoring_until

local function needs_draw(is)
  return is.draws == 1 and not is.is_drawn and is.serving == 0
end

local function enter(is, now, asked)
  is.opening = asked == 'open' and needs_draw(is) and 1 or nil
  local to = is.opening and 'early' or asked
  is.open_since = to == 'open' and (is.open_since or now) or nil
  if is.state == 'sold_out' and to == 'open' then is.overruled_stock = is.stock_version end
  if to == 'sold_out' then is.sold_out_at = is.sold_out_at or now end
  if to == 'scheduled' or to == 'early' or to == 'open' then is.sold_out_at = nil end
  is.state, is.restoring_until = to, nil
end

-- What that may have changed: fields of the hash and their values.
local function entered(is)
  return 'state', is.state, 'opening', is.opening or '', 'open_since', is.open_since or '',
    'overruled_stock', is.overruled_stock or '', 'sold_out_at', is.sold_out_at or '',
    'restoring_until', is.restoring_until or ''
end
