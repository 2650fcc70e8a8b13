//! Four servers as a cluster: shows live on different nodes, slots move, nodes fail and change roles.

use std::sync::Arc;

use catraca::base::ids::ShowId;
use catraca::driver::redis::Settings;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::ScriptClock;
use catraca::room::keys::SHOWS;
use catraca::room::model::command::{Joined, Mended, Origin, RoomState};
use catraca::room::{Rooms, StoreError};
use redis::{Connection, FromRedisValue};

use crate::chaos::site::Site;
use crate::contract::room::{joining, show};
use crate::model::world::{fan, new_room, settings};
use crate::support::free_port;
use crate::support::need::{Need, on_both};
use crate::support::redis::Server;
use crate::support::sale::SHOW;
use crate::support::until;

/// Nodes with slots. One more follows one of them.
const PRIMARIES: usize = 3;
/// Slots of a cluster.
const SLOTS: usize = 16_384;

struct Node {
    server: Server,
    id: String,
    hand: std::sync::Mutex<Connection>,
}

impl Node {
    fn ask<T: FromRedisValue>(&self, line: &str) -> redis::RedisResult<T> {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>());
        command.query(&mut self.hand.lock().unwrap())
    }

    fn tell(&self, line: &str) {
        let done: redis::RedisResult<redis::Value> = self.ask(line);
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    fn says(&self, section: &str, line: &str) -> bool {
        let text: String = self.ask(section).unwrap();
        text.lines().any(|found| found.trim() == line)
    }
}

/// Whoever has which slots is changed by tests: the first node has the first third, and so on.
struct Cluster {
    nodes: Vec<Node>,
}

impl Cluster {
    async fn start(need: &Need) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..=PRIMARIES {
            let bus = free_port().to_string();
            let settings = [
                "--maxmemory-policy",
                "noeviction",
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                "1500",
            ];
            let server = Server::start_with(need, &settings)?;
            let hand = server.connection().into();
            let mut node = Node {
                server,
                id: String::new(),
                hand,
            };
            node.id = node.ask("CLUSTER MYID").unwrap();
            nodes.push(node);
            buses.push(bus);
        }
        let cluster = Self { nodes };
        cluster.assemble(&buses).await;
        Some(cluster)
    }

    async fn assemble(&self, buses: &[String]) {
        for (n, node) in self.nodes[..PRIMARIES].iter().enumerate() {
            let (first, last) = (n * SLOTS / PRIMARIES, (n + 1) * SLOTS / PRIMARIES - 1);
            node.tell(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
        }
        for (node, bus) in self.nodes.iter().zip(buses) {
            let port = node.server.port();
            self.nodes[0].tell(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
        }
        until("the cluster is whole", || async {
            let all = format!("cluster_known_nodes:{}", self.nodes.len());
            let is_whole = |node: &Node| {
                node.says("CLUSTER INFO", &all) && node.says("CLUSTER INFO", "cluster_state:ok")
            };
            self.nodes.iter().all(is_whole).then_some(())
        })
        .await;
    }

    /// Makes the last node follow this one.
    async fn follow(&self, primary: &Node) {
        let last = &self.nodes[PRIMARIES];
        last.tell(&format!("CLUSTER REPLICATE {}", primary.id));
        until("the replica follows", || async {
            let line = "master_link_status:up";
            last.says("INFO replication", line).then_some(())
        })
        .await;
    }

    fn slot_of(&self, key: &str) -> usize {
        self.nodes[0]
            .ask(&format!("CLUSTER KEYSLOT {key}"))
            .unwrap()
    }

    /// The node that has a slot at the beginning.
    fn owner(&self, slot: usize) -> &Node {
        &self.nodes[slot * PRIMARIES / SLOTS]
    }

    fn url(&self) -> String {
        let [first, second] = [0, 1].map(|n: usize| self.nodes[n].server.port());
        format!("redis+cluster://127.0.0.1:{first},127.0.0.1:{second}")
    }
}

/// A slot on its way from one node to another.
struct Move<'a> {
    slot: usize,
    from: &'a Node,
    to: &'a Node,
}

impl Move<'_> {
    fn begin(&self) {
        let Self { slot, from, to } = self;
        to.tell(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id));
        from.tell(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id));
    }

    /// Sends at most so many keys.
    fn send(&self, most: usize) {
        let list = format!("CLUSTER GETKEYSINSLOT {} {most}", self.slot);
        let keys: Vec<String> = self.from.ask(&list).unwrap();
        let port = self.to.server.port();
        for key in keys {
            self.from
                .tell(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
        }
    }

    fn finish(&self) {
        let line = format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.to.id);
        self.to.tell(&line);
        self.from.tell(&line);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shows_live_on_every_node_and_are_listed_wherever_the_list_is() {
    on_both(shows_live_everywhere).await;
}

async fn shows_live_everywhere(need: &Need) {
    let Some(cluster) = Cluster::start(need).await else {
        return;
    };
    let rooms = Rooms::new(Arc::new(InRedis::connect(&cluster.url()).await.unwrap()));
    let mut shows: Vec<ShowId> = (0..12)
        .map(|n| format!("show-{n}").parse().unwrap())
        .collect();
    shows.sort();
    let begin = async |show: &ShowId| {
        for step in new_room(settings(), RoomState::Open) {
            assert_eq!(rooms.mend(show, step).await.unwrap(), Mended::Done);
        }
        let joined = rooms.join(show, joining(1, Origin::Minted)).await.unwrap();
        assert!(matches!(joined, Joined::New { .. }), "{joined:?}");
    };
    for show in &shows {
        begin(show).await;
    }
    for node in &cluster.nodes[..PRIMARIES] {
        assert_ne!(
            node.ask::<usize>("DBSIZE").unwrap(),
            0,
            "a node without a show"
        );
    }
    assert_eq!(rooms.shows().await.unwrap(), shows);

    // The list moves: first one is asked to ask elsewhere, then it has moved.
    let slot = cluster.slot_of(SHOWS);
    let from = cluster.owner(slot);
    let to = cluster.nodes[..PRIMARIES]
        .iter()
        .find(|node| node.id != from.id);
    let to = to.unwrap();
    let moving = Move { slot, from, to };
    moving.begin();
    moving.send(10);
    assert_eq!(rooms.shows().await.unwrap(), shows, "asked elsewhere");
    let late: ShowId = "zz-late".parse().unwrap();
    begin(&late).await;
    shows.push(late.clone());
    moving.finish();
    assert_eq!(rooms.shows().await.unwrap(), shows, "moved");

    // Lost, where the rooms are not: whoever copies a ledger says its show again.
    to.tell(&format!("DEL {SHOWS}"));
    assert_eq!(rooms.shows().await.unwrap(), []);
    rooms.ledger(&late, 1).await.unwrap();
    assert_eq!(rooms.shows().await.unwrap(), [late]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_goes_on_wherever_its_slot_is() {
    on_both(a_sale_goes_on).await;
}

async fn a_sale_goes_on(need: &Need) {
    let Some(cluster) = Cluster::start(need).await else {
        return;
    };
    let slot = cluster.slot_of(&format!("{{{SHOW}}}"));
    let first = cluster.owner(slot);
    cluster.follow(first).await;
    let site = Site::open(&cluster.url(), &[]).await;

    // The replica takes over; the old primary, now a replica, sends on whoever asks it.
    let promoted = &cluster.nodes[PRIMARIES];
    promoted.tell("CLUSTER FAILOVER");
    until("the replica is promoted", || async {
        promoted
            .says("INFO replication", "role:master")
            .then_some(())
    })
    .await;
    goes_on(&site).await;

    // The slot moves to a third node. Half-way nobody can be served, and they are told.
    let others = &cluster.nodes[..PRIMARIES];
    let third = others.iter().find(|node| node.id != first.id).unwrap();
    let moving = Move {
        slot,
        from: promoted,
        to: third,
    };
    moving.begin();
    moving.send(2);
    is_moving(&site).await;
    moving.send(100);
    moving.finish();
    goes_on(&site).await;

    // A node with other slots stands still, and a cluster that is not whole serves nobody.
    let still = others
        .iter()
        .find(|node| ![&first.id, &third.id].contains(&&node.id));
    let still = still.unwrap();
    still.server.pause();
    is_moving(&site).await;
    still.server.resume();
    goes_on(&site).await;
    site.terminate().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_is_not_asked_again_and_again() {
    on_both(the_next_is_asked).await;
}

/// A node without slots, which the address names first, stands still. Those who ask go away before it
/// could be given up.
async fn the_next_is_asked(need: &Need) {
    let Some(cluster) = Cluster::start(need).await else {
        return;
    };
    let [hangs, next] = [PRIMARIES, 1].map(|n| &cluster.nodes[n].server);
    hangs.pause();
    let settings = Settings {
        url: format!(
            "redis+cluster://127.0.0.1:{},127.0.0.1:{}",
            hangs.port(),
            next.port()
        ),
        ..Settings::default()
    };
    let rooms = InRedis::open(&settings, ScriptClock::Server).unwrap();
    let rooms = Rooms::new(Arc::new(rooms));
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(rooms.check(&show(), fan(1)).await);
    }
    hangs.resume();
    let is_asked = matches!(told.last(), Some(Err(StoreError::Unfenced)));
    assert!(is_asked, "{told:?}");
}

/// Joins are refused because nobody has the slot.
async fn is_moving(site: &Site) {
    let refused = until("the slot is nobody's", || async {
        let joined = site.join().await;
        (joined.says() == ("room-unavailable", "moving")).then_some(joined)
    })
    .await;
    assert_eq!((refused.status, &*refused.retry_after), (503, "1"));
    let (pass, before) = &site.waiting;
    assert_eq!(site.status(pass).await.body["place"], before["place"]);
}

/// Joins are answered, and who waited has their place.
async fn goes_on(site: &Site) {
    site.joined().await;
    until("everything is ready", || async {
        (site.ready().await.1 == "ok").then_some(())
    })
    .await;
    let (pass, before) = &site.waiting;
    let stands = until("the status is answered", || async {
        let status = site.status(pass).await;
        (status.status == 200).then_some(status.body)
    })
    .await;
    assert_eq!(stands["place"], before["place"]);
}
