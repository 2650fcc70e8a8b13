//! What the started program makes of those who mean harm: the catalogue of hostile input, row by row,
//! smuggled requests, floods, slow clients, secrets that might leak.

mod api; // what our own routes are asked
mod canary; // does a secret get out?
mod crowds; // what is sent many times
mod ended; // tickets whose time is over
mod fields; // what headers say
mod frames; // HTTP/2 by hand
mod floods; // HTTP/2 in floods
mod forged;
mod framing; // where a request ends
mod fuzz; // what parsers make of anything
mod going; // is anybody harmed when it stops?
mod lines; // what is tried on the line
mod mutator;
mod operators; // what comes by other doors
mod paths; // what a target means
mod patience; // how long it waits, and for how many
mod short; // what is answered without hyper
mod site;
mod slow; // do slow ones harm the others?
mod smuggling; // is a request ever two?
mod spelling;
mod tls;
mod tokens; // what may pass the gate
mod upstream; // a shop that means harm
mod wire;
