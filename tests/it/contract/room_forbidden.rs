//! A user of Redis who may not run one of the commands of the scripts: whatever is asked, it is answered
//! as if nothing were missing, or it is refused by that name and has done nothing.

use std::collections::BTreeSet;

use catraca::base::outage::Outage;
use catraca::room::in_redis::InRedis;
use catraca::room::in_redis::scripts::{Name, ScriptClock};
use catraca::room::{Store, StoreError};

use crate::contract::room::show;
use crate::contract::room_foreign::{Room, commands};
use crate::support::need::{Need, on_both};
use crate::support::redis::Server;

/// What scripts ask of the server, but for what every connection asks before they do.
fn of_scripts() -> BTreeSet<&'static str> {
    let calls = Name::ALL.map(|name| name.text().split("redis.call('").skip(1));
    let words = calls
        .into_iter()
        .flatten()
        .map(|call| call.split('\'').next());
    words.flatten().filter(|word| *word != "INFO").collect()
}

async fn nothing_is_half_done(need: &Need) {
    let Some(server) = Server::start(need) else {
        return;
    };
    let mut room = Room::furnished(&server).await;
    let user = |rule: &str| server.tell(&["ACL", "SETUSER", "clerk", rule]);
    for rule in ["on", "nopass", "~*", "+@all"] {
        user(rule);
    }
    let url = format!("redis://clerk:anything@127.0.0.1:{}/", server.port());
    let store = InRedis::connect_on(&url, ScriptClock::Key).await.unwrap();
    let (mut missed, mut refused) = (Vec::new(), 0);
    for command in commands() {
        room.restore();
        let meant = store.apply(&show(), &command).await.unwrap();
        for word in of_scripts() {
            room.restore();
            let before = room.held();
            user(&format!("-{word}"));
            let answer = store.apply(&show(), &command).await;
            user(&format!("+{word}"));
            match answer {
                Ok(answer) if answer == meant => {}
                Err(StoreError::Unavailable(away)) if away.outage == Outage::Forbidden => {
                    refused += 1;
                    if room.held() != before {
                        missed.push(format!("without {word} half is done of {command:?}"));
                    }
                    // Nor has it spoilt anything that the next one needs.
                    match store.apply(&show(), &command).await {
                        Ok(answer) if answer == meant => {}
                        other => missed.push(format!("after {word}: {command:?}: {other:?}")),
                    }
                }
                other => missed.push(format!("without {word}: {command:?}: {other:?}")),
            }
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {refused}: {missed:#?}",
        missed.len()
    );
    assert!(100 < refused, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_a_command_does_it_whole_or_not_at_all() {
    on_both(nothing_is_half_done).await;
}
