"""Whether a request came through the gate: the check that a shop makes in its own language.

The gate sends who asks in x-catraca-fan, -show, -ticket-id and -nonce, and signs these together with
the method and the path in x-catraca-assertion: v1.<unix ms>.<base64url of an HMAC-SHA-256>, by the
secret that gate and shop share. A shop that only the gate can reach does not need this.
"""

import base64
import hashlib
import hmac
import time
import uuid

FRESH_MS = 5_000  # how far two clocks may differ, and how old a request may be


def mac(secret, parts):
    """HMAC-SHA-256 over parts, each after its length in eight bytes."""
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(secret.encode(), text, hashlib.sha256).digest()


def came_through_the_gate(headers, method, path, secret, now_ms=None):
    """`path` with its query, as it arrived. A nonce is good once: remember those of FRESH_MS."""
    try:
        version, at, tag = headers["x-catraca-assertion"].split(".")
        parts = [
            bytes.fromhex(headers["x-catraca-fan"]),
            headers["x-catraca-show"].encode(),
            headers.get("x-catraca-ticket-id", "").encode(),  # none where a pass is enough
            uuid.UUID(headers["x-catraca-nonce"]).bytes,
            method.encode(),
            path.encode(),
            int(at).to_bytes(8, "big", signed=True),
        ]
        told = base64.urlsafe_b64decode(tag + "=" * (-len(tag) % 4))
    except (KeyError, ValueError, OverflowError):
        return False
    now_ms = time.time() * 1000 if now_ms is None else now_ms
    is_fresh = abs(now_ms - int(at)) <= FRESH_MS
    return version == "v1" and is_fresh and hmac.compare_digest(told, mac(secret, parts))
