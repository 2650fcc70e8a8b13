//! A crowd of fans, from outside: it speaks HTTP and believes only what it is told.
//!
//! Read the modules in this order. Nothing here knows the server's code: what the judges hold against
//! an answer is only what other answers said before.

pub mod bench; // side by side with peers, in CPU time
pub mod cli; // the words of the command line
pub mod crowd; // fans: what each wants, asks and makes of the answers
pub mod history; // one line an operation, for whoever checks later
pub mod judge; // what must never happen, and what was seen of it
pub mod report; // what a run comes to, as text and as JSON
