//! Does every backend keep the promise of its port?

mod admin;
mod admissions;
mod admitter;
mod dead_letters;
mod desk;
mod gate;
mod journey;
mod log;
mod mend;
mod notify;
mod orders;
mod orders_api;
mod orders_histories;
mod orders_keys;
mod orders_payment;
mod payment_provider;
mod postgres;
mod provider;
mod room;
mod room_batch;
mod room_in_redis;
mod room_memory;
mod shop;
mod shop_home;
mod stock;
