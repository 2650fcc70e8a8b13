//! Whoever asks too often is told when to come back; others are served.

use catraca::limit::Limit;

use crate::e2e::gateway::door::{Door, Plan};

async fn strict() -> Door {
    let mut plan = Plan::default();
    let limit = Limit { per_s: 1, burst: 2 };
    let limits = &mut plan.settings.limits;
    (limits.join, limits.fan, limits.gated) = (limit, limit, limit);
    Door::planned(plan).await
}

#[tokio::test]
async fn joins_are_counted_by_the_client_that_the_proxy_names() {
    let door = strict().await;
    let join = async |address: &str| door.join(&[("x-forwarded-for", address)]).await;
    for _ in 0..2 {
        assert_eq!(join("1.2.3.4").await.status, 201);
    }
    let refused = join("6.6.6.6, 1.2.3.4").await;
    assert_eq!(
        (refused.status, refused.word().as_str()),
        (429, "too-many-requests")
    );
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(join("1.2.3.5").await.status, 201);
    assert_eq!(join("2001:db8:1:2::1").await.status, 201);
}

#[tokio::test]
async fn polls_are_counted_by_fan_and_gated_requests_by_ticket() {
    let door = strict().await;
    let (ana, ticket) = door.admitted().await; // one poll
    assert_eq!(door.status(&ana.pass).await.status, 200);
    let refused = door.status(&ana.pass).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    let headers = [
        ("x-catraca-pass", ana.pass.as_str()),
        ("x-admission-ticket", &ticket),
    ];
    for status in [200, 200, 429] {
        let path = "/v1/shows/gala/orders";
        assert_eq!(door.ask("POST", path, &headers, "{}").await.status, status);
    }
    assert_eq!(door.shop.reached().len(), 2);
}
