//! How many connections each client has open.
//!
//! A client is a prefix: an IPv4 address, or an IPv6 /64, of which one customer has them all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limit::prefix::Prefix;

/// Counts open connections by client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients(Arc<Mutex<HashMap<Prefix, usize>>>);

impl Clients {
    /// A place among a client's connections, if fewer than `max` are taken.
    pub(crate) fn slot(&self, client: Prefix, max: usize) -> Option<Slot> {
        let mut clients = self.lock();
        let open = clients.entry(client).or_insert(0);
        if max <= *open {
            return None;
        }
        *open += 1;
        let clients = self.clone();
        Some(Slot { client, clients })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Prefix, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    client: Prefix,
    clients: Clients,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut clients = self.clients.lock();
        if let Some(open) = clients.get_mut(&self.client) {
            *open -= 1;
            if *open == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::prefix::Prefixes;

    #[test]
    fn a_prefix_has_so_many_places_and_leaves_no_trace() {
        let clients = Clients::default();
        let slot =
            |address: &str| clients.slot(Prefixes::of(address.parse().unwrap()).narrowest(), 2);
        let held = [slot("2001:db8::1"), slot("2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(slot("2001:db8::3").is_none(), "a /64 is one client");
        assert!(slot("2001:db8:0:1::3").is_some() && slot("10.0.0.1").is_some());
        drop(held);
        assert!(slot("2001:db8::3").is_some());
        assert!(clients.lock().is_empty());
    }
}
