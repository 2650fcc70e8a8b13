//! What others may have put under a key of ours.

/// One value of every kind: which it is, and the command that puts it there.
pub(crate) fn of_every_kind(key: &str) -> [(&'static str, Vec<&str>); 6] {
    [
        ("string", vec!["SET", key, "something else"]),
        ("list", vec!["LPUSH", key, "1"]),
        ("set", vec!["SADD", key, "1"]),
        ("zset", vec!["ZADD", key, "1", "1"]),
        ("hash", vec!["HSET", key, "1", "1"]),
        ("stream", vec!["XADD", key, "1-1", "1", "1"]),
    ]
}
