//! Do the promises hold with real servers and cut cables?

mod postgres;
mod postgres_sale;
