//! Does every backend keep the promise of its port?

mod admin;
mod admissions;
mod admitter;
mod admitter_draw;
mod dead_letters;
mod desk;
mod gate;
mod journey;
mod log;
mod mend;
mod notify;
mod orders;
mod orders_api;
mod orders_cancel;
mod orders_histories;
mod orders_keys;
mod orders_payment;
mod orders_saga;
mod payment_provider;
mod postgres;
mod provider;
pub(crate) mod room;
mod room_batch;
mod room_in_redis;
mod shop;
mod shop_home;
mod stock;
