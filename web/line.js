// The arithmetic of a place in line. Pure: time and chance are arguments.

/**
 * Places from here to there, but for those that nobody holds since a fault. Of those a draw has none:
 * its empty places are counted otherwise.
 */
function distance(place, serving, { gaps = [], draw }) {
  const passed = Math.max(serving, draw?.seed ? draw.size : 0);
  let lost = 0;
  for (const { first, last, missing } of gaps) {
    const ahead = Math.min(last, place - 1) - Math.max(first, passed + 1) + 1;
    const isInside = first <= place && place <= last;
    const others = last - first + 1 - missing - (isInside ? 1 : 0);
    lost += Math.max(0, ahead - others);
  }
  return place - serving - lost;
}

/**
 * At most so many are called before and with this place. Numbers lost in a fault do not count, nor,
 * after a draw, the share of its empty places that lies ahead.
 */
export function position(place, serving, board = {}) {
  const { draw } = board;
  let empty = 0;
  if (draw?.seed && serving < draw.size && serving < place) {
    const share = (place - serving - 1) / (draw.size - serving);
    empty = draw.size < place ? draw.empty : Math.floor(draw.empty * share);
  }
  return Math.max(1, distance(place, serving, board) - empty);
}

/**
 * The waiting time from now as a range in seconds, as `room::estimate` has it for `status`; null
 * where the pace is not known. `beforeMs` is the time until anybody is called.
 */
export function eta(place, serving, board, beforeMs = 0) {
  const pace = board.pace ?? (board.rate * 1000) / board.window_ms;
  if (!(0 < pace)) return null;
  // A measured pace counts places, the empty ones too; a rate counts people.
  const ahead = board.pace == null
    ? position(place, serving, board) : Math.max(1, distance(place, serving, board));
  const seconds = Math.ceil(beforeMs / 1000) + Math.ceil(ahead / pace);
  const wide = Math.ceil(seconds * (board.eta?.spread ?? 0.2));
  const half = Math.min(Math.max(wide, 5), Math.max(15, Math.floor(seconds / 4)));
  return { low_s: Math.max(0, seconds - half), high_s: seconds + half };
}

/** Whether a fan without a place may take one. */
export function joinable(state) {
  return ["early", "open", "paused", "restoring"].includes(state);
}

/** Whether two answers speak of the same line, with nothing lost in between. */
export function sameLine(a, b) {
  return a.edition === b.edition && a.generation === b.generation;
}

/** A board that a slow copy still had in its cache: newer ones have been seen. */
export function isOlder(board, seen) {
  return Boolean(seen) && Date.parse(board.as_of) < Date.parse(seen.as_of);
}

/** After a loss the front comes back first, and not all at once. */
export function returnAfterMs(position, restorePerSecond, random) {
  return (position / Math.max(1, restorePerSecond)) * 1000 + random * 5000;
}

/** Up to a fifth more or less, so that pages do not ask in step. */
export function jitter(ms, random) {
  return ms * (0.8 + 0.4 * random);
}

/** The pause after so many failures in a row: never below what the server asked for. */
export function backoffMs(failures, retryAfterMs, random) {
  const ceiling = Math.min(60_000, 1000 * 2 ** Math.min(failures, 6));
  return (retryAfterMs ?? 0) + 1000 + random * ceiling;
}

/** The first of our languages among those asked for, by its first part. */
export function pickLanguage(asked, ours) {
  for (const tag of asked) {
    const primary = (tag ?? "").toLowerCase().split(/[-_]/)[0];
    const found = ours.find((language) => language.toLowerCase().split("-")[0] === primary);
    if (found) return found;
  }
  return "en";
}
