//! Do the promises hold with real servers and cut cables?

mod deployed;
mod loss;
mod postgres;
mod postgres_sale;
mod redis_cluster;
mod redis_lanes;
mod redis_outages;
mod redis_sentinel;
mod redis_start;
mod redis_users;
mod site;
