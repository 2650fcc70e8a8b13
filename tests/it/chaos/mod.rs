//! Do the promises hold with real servers and cut cables?

mod crew;
mod deployed;
mod election;
mod full_disk;
mod joiners;
mod kafka_guarded;
mod lines;
pub(crate) mod loss;
mod postgres;
mod postgres_killed;
mod postgres_sale;
mod postgres_standby;
mod postgres_tls;
mod redis_cluster;
mod redis_floods;
mod redis_lanes;
mod redis_outages;
mod redis_sentinel;
mod redis_start;
mod redis_users;
mod relay;
mod site;
mod split_brain;
mod stalls;
mod verdict;
mod watched;
mod wrong_clock;
