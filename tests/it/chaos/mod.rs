//! The promises with real servers that fail in every way we know.

mod deployed;
mod redis_cluster;
mod redis_lanes;
mod redis_outages;
mod redis_sentinel;
mod redis_start;
mod redis_users;
mod site;
