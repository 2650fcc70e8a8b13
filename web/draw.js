// The draw: from what the board reveals to a fan's place, and whether that is what was sealed.
// Pure, and the same as src/room/draw.rs: both are held to tests/golden/draw.json.
//
// SHA-256 is our own because pages without TLS have no WebCrypto, and because the shuffle hashes a
// quarter of a million times in a row: a promise for each would cost more than the hash.

const K = Uint32Array.from([
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]);
const START = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

/** Mixes one block, the first 16 words of `w`, into `state`; `w` has 64 and is used up. */
function mix(state, w) {
  for (let i = 16; i < 64; i += 1) {
    const [x, y] = [w[i - 15], w[i - 2]];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g; g = f; f = e; e = (d + t1) | 0;
    d = c; c = b; b = a; a = (t1 + t2) | 0;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d;
  state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

/** SHA-256 of bytes, as 64 hexadecimal digits. */
export function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const [state, w] = [Uint32Array.from(START), new Uint32Array(64)];
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i += 1) w[i] = view.getUint32(at + 4 * i);
    mix(state, w);
  }
  return Array.from(state, (word) => word.toString(16).padStart(8, "0")).join("");
}

const text = (text) => [...new TextEncoder().encode(text)];
const bytes = (hex) => (hex.match(/../g) ?? []).map((digits) => parseInt(digits, 16));
const u64 = (n) => bytes(BigInt(n).toString(16).padStart(16, "0"));
const hash = (...parts) => sha256(Uint8Array.from(parts.flat()));

/** What is published of a secret before the draw. */
export function commitment(show, secret, beacon = "") {
  return hash(text("catraca commitment 1"), text(show), bytes(secret), text(beacon));
}

/** What every place follows from. */
export function seed(show, secret, beaconValue, size) {
  return hash(text("catraca draw 1"), text(show), bytes(secret), text(beaconValue), u64(size));
}

/**
 * Whether a draw that was revealed is the one whose commitment was `sealed` when the fan joined: the
 * same secret, the same beacon, and a seed that follows from them. Null before the reveal.
 */
export function isAsSealed(show, draw, sealed) {
  if (!draw?.seed || !draw.secret) return null;
  const value = draw.beacon_value ?? "";
  return commitment(show, draw.secret, draw.beacon ?? "") === (sealed ?? draw.commitment)
    && seed(show, draw.secret, value, draw.size) === draw.seed;
}

/** Draws between two pauses: some milliseconds of work. */
const AT_ONCE = 20_000;

/**
 * The place of every number, by number; [0] is nobody's. `pause` is awaited now and then, so that
 * the page stays awake.
 */
export async function places(seed, size, pause = async () => {}) {
  const table = new Uint32Array(size + 1);
  for (let i = 1; i <= size; i += 1) table[i] = i;
  const [state, w] = [new Uint32Array(8), new Uint32Array(64)];
  const words = seed.match(/.{8}/g).map((digits) => parseInt(digits, 16));
  let [block, used] = [0, 8];
  for (let m = size; 1 < m; m -= 1) {
    const fair = Math.floor(2 ** 32 / m) * m;
    let drawn;
    do {
      if (used === 8) {
        // One block of SHA-256: seed, counter (2^32 blocks are never needed), padding, 320 bits.
        w.set(words);
        w[8] = 0; w[9] = block; w[10] = 0x80000000;
        w.fill(0, 11, 15);
        w[15] = 320;
        state.set(START);
        mix(state, w);
        [block, used] = [block + 1, 0];
      }
      drawn = state[used];
      used += 1;
    } while (fair <= drawn);
    const other = 1 + (drawn % m);
    const place = table[m];
    table[m] = table[other];
    table[other] = place;
    if (m % AT_ONCE === 0) await pause();
  }
  return table;
}
