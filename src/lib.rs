//! A waiting room and the shop behind it. Read the modules in this order.

pub mod base; // ids, time, limits
pub mod event; // facts that leave a service
pub mod token; // what we sign: passes and tickets

pub mod batch; // many requests, one call
pub mod telemetry; // what the system says about itself
pub mod driver; // libraries, tamed

pub mod room; // who is next
pub mod show; // what an operator decides
pub mod limit; // how often somebody may ask
pub mod seller; // whose account joins
pub mod log; // how events travel

pub mod http; // our manners on the wire

pub mod gateway; // the door
pub mod admitter; // lets people in
pub mod orders; // sells
pub mod relay; // sends what was sold
pub mod notify; // tells people
pub mod stock; // what is left
pub mod search; // what listings show of it
pub mod analytics; // how it sells
pub mod thin; // what others may know of it
pub mod tally; // how many joined, told

pub mod journey; // where did my order stop?
pub mod admin; // the operators' door
pub mod check; // were the promises kept?

pub mod config; // defaults, file, environment, flags
pub mod supervisor; // tasks, phases, drain, verdict

pub mod app; // puts it together
pub mod cli; // the command line
