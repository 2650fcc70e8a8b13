// Facts as sentences: what src/gateway/page/ says without scripts, said here. Pure.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Replaces each {word} by its value; values are not looked into. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (_, word) => values[word] ?? "");
}

export function number(n, t) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, t.thousands);
}

/** A duration in its two largest units; seconds are left out from ten minutes on. */
export function duration(ms, t) {
  let total = Math.ceil(Math.max(0, ms) / 1000);
  if (10 * MINUTE <= total) total = Math.ceil(total / MINUTE) * MINUTE;
  const units = [
    [Math.floor(total / DAY), t.day_one, t.day_other],
    [Math.floor((total % DAY) / HOUR), t.hour_one, t.hour_other],
    [Math.floor((total % HOUR) / MINUTE), t.minute_one, t.minute_other],
    [total % MINUTE, t.second_one, t.second_other],
  ];
  const count = ([n, one, other]) => fill(n === 1 ? one : other, { n });
  const found = units.findIndex(([n]) => 0 < n);
  const first = found < 0 ? 3 : found;
  const second = units[first + 1];
  if (!second || second[0] === 0) return count(units[first]);
  return fill(t.duration_of_two, { a: count(units[first]), b: count(second) });
}

/** A waiting time as a range: minutes up to an hour and a half, beyond in steps of five. */
export function eta({ low_s, high_s }, t) {
  if (high_s <= MINUTE) return t.eta_soon;
  const low = Math.floor(low_s / MINUTE);
  const high = Math.ceil(high_s / MINUTE);
  if (90 < high) {
    return fill(t.eta_range_long, {
      low: hoursMinutes(Math.floor(low / 5) * 5, t),
      high: hoursMinutes(Math.ceil(high / 5) * 5, t),
    });
  }
  const text = low === 0 ? t.eta_up_to : low === high ? t.eta_about : t.eta_range;
  return fill(text, { low, high });
}

function hoursMinutes(minutes, t) {
  const [h, m] = [Math.floor(minutes / 60), minutes % 60];
  const text = h === 0 ? t.minutes_short : m === 0 ? t.hours_short : t.hours_minutes;
  return fill(text, { h, m });
}

/** Whether seats will last for this place: an estimate, so a tenth to each side is open. */
export function reach(reach, place, t) {
  let text = t.reach_unlikely;
  if (place * 10 <= reach * 11) text = t.reach_close;
  if (place * 10 <= reach * 9) text = t.reach_likely;
  let unit = 1;
  while (1000 <= Math.floor(reach / unit)) unit *= 10;
  const about = Math.floor(reach / unit) * unit;
  return fill(text, { reach: number(about, t), place: number(place, t) });
}

const IN_LINE = ["early", "waiting", "paused", "restoring"];

/** Everything that the page says about these facts, in the order in which it is read. */
export function screen(facts, t) {
  const inLine = IN_LINE.includes(facts.state) && facts.number !== undefined;
  const isPlaced = inLine && facts.place != null;
  const [title, ...texts] = words(facts, t);
  const isShop = /^https?:\/\//.test(facts.enter ?? "");
  const mayEnter = isShop && ["admitted", "off"].includes(facts.state);
  return {
    title,
    texts: texts.filter(Boolean),
    position: isPlaced ? number(facts.position, t) : null,
    help: help(facts, t),
    draw: facts.draw ? draw(facts.draw, t) : null,
    kept: inLine ? t.kept : null,
    facts: inLine ? numbers(facts, t) : [],
    notice: facts.notice ? t[facts.notice] : null,
    enter: mayEnter ? facts.enter : null,
    join: facts.state === "none" ? t.join : facts.state === "gone" ? t.join_again : null,
    mayLeave: inLine || ["admitted", "standby"].includes(facts.state),
  };
}

function help({ position, draw }, t) {
  if (position === 1) return t.position_next;
  return draw ? t.position_help_draw : t.position_help;
}

/** How the draw can be checked, and what that proves. */
function draw({ beacon, commitment, isHeld, isAsSealed }, t) {
  const chance = beacon ? fill(t.draw_beacon, { beacon }) : t.draw_no_beacon;
  const checked = isAsSealed ? t.draw_checked : t.draw_broken;
  return {
    texts: [t.draw_seal, t.draw_how, chance],
    commitment,
    checked: isHeld && typeof isAsSealed === "boolean" ? checked : null,
  };
}

function words(facts, t) {
  const isShop = /^https?:\/\//.test(facts.enter ?? "");
  const inTime = (text, ms) => fill(text, { time: duration(ms, t) });
  switch (facts.state) {
    case "none":
      return [t.join_title, facts.draw ? t.join_text_draw : t.join_text];
    case "scheduled":
      if (facts.opens_in_ms == null) return [t.scheduled_title, t.scheduled_some_day];
      return [t.scheduled_title, inTime(t.scheduled_in, facts.opens_in_ms)];
    case "early":
      return [t.early_title, opening(facts, t), early(facts, t)];
    case "waiting":
      return [
        t.waiting_title,
        facts.cause && t[`cause_${facts.cause}`],
        facts.isPresenceAsked && t.presence,
      ];
    case "admitted":
      return [
        t.admitted_title,
        isShop ? t.admitted_text : t.admitted_app,
        inTime(t.admitted_left, facts.left_ms),
      ];
    case "gone":
      return [t[`gone_${facts.reason}_title`], t[`gone_${facts.reason}_text`]];
    case "sold_out":
      return [t.sold_out_title, ...soldOut(facts, t)];
    default:
      // loading, standby, paused, closed, restoring, off, missing: a title and one text.
      return [t[`${facts.state}_title`], t[`${facts.state}_text`]];
  }
}

function opening({ opens_in_ms }, t) {
  if (opens_in_ms == null) return t.early_some_day;
  return opens_in_ms <= 0 ? t.early_soon : fill(t.early_in, { time: duration(opens_in_ms, t) });
}

/** What an early fan is told of the draw. */
function early({ draw, number }, t) {
  if (!draw) return null;
  if (draw.size == null) return t.draw_early;
  if (draw.size < number) return t.draw_late;
  return draw.beacon ? fill(t.draw_waits, { beacon: draw.beacon }) : t.draw_now;
}

function soldOut(facts, t) {
  const said = [];
  if (facts.sold_out_at) said.push(fill(t.sold_out_at, { time: facts.sold_out_at }));
  if (facts.serving < facts.place) {
    const values = { serving: number(facts.serving, t), place: number(facts.place, t) };
    said.push(fill(t.sold_out_far, values));
  }
  said.push(t.sold_out_thanks);
  return said;
}

function numbers(facts, t) {
  const said = [];
  const isTimed = facts.state === "waiting" || (facts.state === "early" && facts.eta);
  if (isTimed) said.push([t.eta, facts.eta ? eta(facts.eta, t) : t.eta_unknown]);
  if (facts.reach != null && facts.place != null) said.push([t.reach, reach(facts.reach, facts.place, t)]);
  const { draw, place } = facts;
  if (draw?.isHeld && place != null) {
    const values = { place: number(place, t), size: number(draw.size, t) };
    said.push([t.draw, fill(draw.size < facts.number ? t.draw_behind : t.draw_place, values)]);
  }
  said.push([t.number, number(facts.number, t)]);
  return said;
}
