//! Does the whole thing work from outside?

mod drill_cancel; // is a show called off to the end?
mod drill_draw; // is a drawn sale judged by its draw?
mod drill_journey; // can operators steer a sale and follow an order?
pub(crate) mod drill_restart; // does a sale survive the death of the program?
mod drill_revoke; // does every gateway refuse whom an operator has sent away?
mod drill_rules; // does the checker notice a rule that is gone?
mod drill_stages; // whatever process stands still, is it said where an order stopped?
mod drill_start; // is a start that cannot be one clear line?
mod drill_views; // are operators told what groups have built, and does a group begin again?
pub(crate) mod gateway;
mod hostile; // what does it make of those who mean harm?
mod mail; // are people written to by a provider that is not ours?
mod openapi; // is the document of the API true?
mod page;
mod refusals; // is every refusal a problem, on every route?
mod roles; // do processes of one role each make one sale?
mod traces; // does a collector see an order's way, and does nobody wait for it?
