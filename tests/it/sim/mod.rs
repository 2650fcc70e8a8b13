//! Do the promises hold when things break?

mod check;
mod check_room;
mod check_sale;
mod check_shop;
mod check_trail;
