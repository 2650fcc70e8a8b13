//! The shop's routes as the gate forwards to them: who is let in, what is refused, what is told.

use catraca::base::secret::Secret;
use catraca::token::assertion::FRESH_MS;
use http::Method;

use crate::contract::gate::{Ask, ask, get, post};
use crate::contract::shop::{HOLD_MS, Shop, T0, fan_id};
use crate::contract::shop_home::{Home, on_every_database};

on_every_database!(
    a_purchase_from_hold_to_confirmation,
    a_hold_is_given_back,
    a_declined_payment_is_told_and_tried_again,
    whoever_does_not_come_through_the_gate_gets_the_same_401,
    an_assertion_is_used_once,
    other_peoples_orders_do_not_exist,
    a_list_of_orders_has_an_end,
    what_cannot_be_meant_is_refused,
    each_no_says_what_to_do,
);

const TWO: &str = r#"{"section":"B","quantity":2}"#;

/// What is done to a good request.
type Spoil = Box<dyn Fn(&mut Ask)>;

fn order_of(hold: &str) -> String {
    format!(r#"{{"hold_id":"{hold}","customer":{{"email":"ana@example.com","locale":"pt-BR"}}}}"#)
}

async fn a_purchase_from_hold_to_confirmation(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let until = format!("until={}", T0.plus_ms(HOLD_MS + 60_000).unix_ms());
    let held = shop.send(post(1, "holds", TWO)).await;
    assert_eq!(held.status, 201, "{}", held.text);
    assert_eq!(held.header("catraca-admission"), Some(until.as_str()));
    assert_eq!(held.header("cache-control"), Some("no-store"));
    assert_eq!(held.header("content-type"), Some("application/json"));
    let hold = held.body["hold_id"].as_str().unwrap();
    let expected = format!(
        r#"{{"hold_id":"{hold}","seats":["B-1","B-2"],"total":{{"amount":780.00,"currency":"BRL"}},"expires_at":"{}","expires_in_ms":{HOLD_MS}}}"#,
        T0.plus_ms(HOLD_MS)
    );
    assert_eq!(held.text, expected);

    let placed = shop.send(post(1, "orders", &order_of(hold))).await;
    assert_eq!(placed.status, 201, "{}", placed.text);
    assert_eq!(placed.header("catraca-admission"), Some(until.as_str()));
    let id = placed.body["order_id"].as_str().unwrap().to_owned();
    let expected = format!(
        r#"{{"order_id":"{id}","hold_id":"{hold}","seats":["B-1","B-2"],"total":{{"amount":780.00,"currency":"BRL"}},"placed_at":"{T0}"}}"#
    );
    assert_eq!(placed.text, expected);

    let pending = shop.send(get(1, &format!("orders/{id}"))).await;
    assert_eq!(pending.status, 200);
    assert_eq!(pending.body["status"], "pending");
    assert_eq!(pending.body["payable_in_ms"], HOLD_MS);
    assert_eq!(pending.header("catraca-admission"), Some(until.as_str()));

    shop.orders.settle().step().await.unwrap();
    let by_pass = Ask {
        ticket: None,
        ..get(1, &format!("orders/{id}"))
    };
    let confirmed = shop.send(by_pass).await;
    assert_eq!(confirmed.body["status"], "confirmed");
    assert_eq!(confirmed.header("catraca-admission"), Some("consumed"));
    assert_eq!(confirmed.body.get("payable_until"), None);

    // Whose answer was lost learns of the order by the pass alone; nobody else does.
    for (fan, count) in [(1, 1), (2, 0)] {
        let by_pass = Ask {
            ticket: None,
            ..get(fan, "orders")
        };
        let own = shop.send(by_pass).await;
        assert_eq!(own.status, 200, "{}", own.text);
        let orders = own.body["orders"].as_array().unwrap();
        assert_eq!(orders.len(), count, "fan {fan}");
        assert!(
            orders
                .iter()
                .all(|order| order["order_id"] == id && order["status"] == "confirmed")
        );
    }

    let again = shop.send(post(1, "orders", &order_of(hold))).await;
    assert_eq!(
        (again.status.as_u16(), again.text),
        (200, placed.text),
        "the same facts"
    );
    assert_eq!(again.headers["catraca-admission"], "consumed");
    shop.audit(10).await;
}

async fn a_hold_is_given_back(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let held = shop.send(post(1, "holds", r#"{"seats":["B-7"]}"#)).await;
    let path = format!("holds/{}", held.body["hold_id"].as_str().unwrap());
    let foreign = shop.send(ask(2, Method::DELETE, &path, "")).await;
    assert_eq!(
        (foreign.status.as_u16(), foreign.word()),
        (404, "not-found")
    );
    for _ in 0..2 {
        let released = shop.send(ask(1, Method::DELETE, &path, "")).await;
        assert_eq!(
            (released.status.as_u16(), released.text.as_str()),
            (204, "")
        );
    }
    assert_eq!(shop.stock().await, (10, 0, 0));
}

async fn a_declined_payment_is_told_and_tried_again(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let held = shop.send(post(1, "holds", TWO)).await;
    let hold = held.body["hold_id"].as_str().unwrap();
    let order = order_of(hold).replace("}}", r#"},"payment":{"token":"decline"}}"#);
    let placed = shop.send(post(1, "orders", &order)).await;
    let path = format!("orders/{}", placed.body["order_id"].as_str().unwrap());
    let pay = format!("{path}/payment");
    let early = shop.send(post(1, &pay, "{}")).await;
    assert_eq!((early.status.as_u16(), early.word()), (409, "in-progress"));
    assert_eq!(early.header("retry-after"), Some("1"));

    shop.orders.settle().step().await.unwrap();
    let declined = shop.send(get(1, &path)).await;
    assert_eq!(declined.body["status"], "pending");
    assert_eq!(declined.body["reason"], "payment-declined");
    let foreign = shop.send(post(2, &pay, "{}")).await;
    assert_eq!(
        (foreign.status.as_u16(), foreign.word()),
        (404, "no-such-order")
    );
    let paying = shop.send(post(1, &pay, r#"{"token":"approve"}"#)).await;
    assert_eq!(paying.status, 202, "{}", paying.text);
    shop.orders.settle().step().await.unwrap();
    let paid = shop.send(post(1, &pay, "{}")).await;
    assert_eq!(
        (paid.status.as_u16(), &paid.body["status"]),
        (200, &"confirmed".into())
    );
    assert_eq!(paid.header("catraca-admission"), Some("consumed"));
}

async fn whoever_does_not_come_through_the_gate_gets_the_same_401(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let leave_out = |name| move |ask: &mut Ask| ask.headers.push((name, None));
    let add = |name, value: &str| {
        let value = value.to_owned();
        move |ask: &mut Ask| ask.headers.push((name, Some(value.clone())))
    };
    let sign_for = |path: &'static str| move |ask: &mut Ask| ask.signed_path = Some(path.into());
    let spoils: [(&str, Spoil); 13] = [
        ("no assertion", Box::new(leave_out("x-catraca-assertion"))),
        ("no fan", Box::new(leave_out("x-catraca-fan"))),
        ("no show", Box::new(leave_out("x-catraca-show"))),
        ("no nonce", Box::new(leave_out("x-catraca-nonce"))),
        ("ticket removed", Box::new(leave_out("x-catraca-ticket-id"))),
        (
            "a second fan",
            Box::new(add("x-catraca-fan", &fan_id(2).to_string())),
        ),
        (
            "a malformed ticket",
            Box::new(add("x-catraca-ticket-id", "x")),
        ),
        ("no ticket", Box::new(|ask| ask.ticket = None)),
        (
            "another secret",
            Box::new(|ask| ask.secret = Secret::new("guessed")),
        ),
        (
            "too old",
            Box::new(|ask| ask.signed_at = T0.minus_ms(FRESH_MS + 1)),
        ),
        ("another path", Box::new(sign_for("/v1/shows/show/orders"))),
        ("with a query", Box::new(sign_for("/v1/shows/show/holds?a"))),
        (
            "another show",
            Box::new(|ask| ask.show = "another-show".parse().unwrap()),
        ),
    ];
    let mut texts = Vec::new();
    for (name, spoil) in spoils {
        let mut ask = post(1, "holds", TWO);
        spoil(&mut ask);
        let told = shop.send_as_signed(&ask).await;
        let said = (told.status.as_u16(), told.word());
        assert_eq!(said, (401, "ticket-required"), "{name}");
        texts.push(told.text);
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "nobody learns what was wrong");
    assert_eq!(shop.stock().await, (10, 0, 0));
}

async fn an_assertion_is_used_once(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let once = post(1, "holds", TWO);
    assert_eq!(shop.send_as_signed(&once).await.status, 201);
    let other_body = Ask {
        body: r#"{"section":"B","quantity":1}"#.to_owned(),
        ..once.clone()
    };
    for again in [&once, &other_body] {
        let again = shop.send_as_signed(again).await;
        assert_eq!(
            (again.status.as_u16(), again.word()),
            (401, "ticket-required")
        );
    }
    assert_eq!(shop.stock().await, (8, 2, 0));
}

async fn other_peoples_orders_do_not_exist(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true)]).await;
    let order = shop.bought(1, 1, None).await;
    let unknown = uuid::Uuid::now_v7();
    let foreign = shop.send(get(2, &format!("orders/{}", order.id))).await;
    let nobodys = shop.send(get(2, &format!("orders/{unknown}"))).await;
    assert_eq!(
        (foreign.status.as_u16(), foreign.word()),
        (404, "no-such-order")
    );
    assert_eq!(foreign.text, nobodys.text);
    let malformed = shop.send(get(2, "orders/1")).await;
    assert_eq!(
        (malformed.status.as_u16(), malformed.word()),
        (400, "bad-id")
    );
    let body = order_of(&order.hold.to_string());
    let theirs = shop.send(post(2, "orders", &body)).await;
    assert_eq!((theirs.status.as_u16(), theirs.word()), (404, "not-found"));
    let nowhere = shop.send(get(1, "tickets")).await;
    assert_eq!(
        (nowhere.status.as_u16(), nowhere.word()),
        (404, "not-found")
    );
    assert_eq!(shop.send(get(1, "holds")).await.status, 405);
}

/// However many somebody has, and whatever they ask for: the latest, and so many.
async fn a_list_of_orders_has_an_end(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let last = shop.bought(1, 1, None).await.id.to_string();
    let more = "with recursive more (n) as (select 1 union all select n + 1 from more where n < 59)
        insert into orders select '01958c5e-7a00-7000-8000-0000000000' || (10 + n),
          '01958c5e-7a00-7000-8000-0000000001' || (10 + n), show, fan, ticket_id, email, locale, seats,
          total_minor, currency, 'cancelled', reason, n, payable_until_ms, updated_at_ms, version
        from orders, more";
    shop.run(more).await.unwrap();
    for path in ["orders", "orders?limit=1000000000&offset=-1"] {
        let told = shop.send(get(1, path)).await;
        let orders = told.body["orders"].as_array().unwrap();
        let ids = orders
            .iter()
            .map(|order| order["order_id"].as_str().unwrap());
        let ids: Vec<&str> = ids.collect();
        let earlier = (21..=69).rev();
        let earlier = earlier.map(|n| format!("01958c5e-7a00-7000-8000-0000000000{n}"));
        let expected: Vec<String> = [last.clone()].into_iter().chain(earlier).collect();
        assert_eq!(ids, expected, "{path}");
    }
}

async fn what_cannot_be_meant_is_refused(home: Home) {
    let shop = Shop::open(&home, &[("B", 10, true), ("GA", 10, false)]).await;
    let eleven: Vec<String> = (1..12).map(|i| format!("\"B-{i}\"")).collect();
    let eleven = format!(r#"{{"seats":[{}]}}"#, eleven.join(","));
    for (body, status, word) in [
        (r#"{"section":"B","quantity":0}"#, 422, "unprocessable"),
        (r#"{"section":"B","quantity":11}"#, 422, "unprocessable"),
        (r#"{"section":"B","quantity":-1}"#, 422, "unprocessable"),
        (r#"{"section":"B","quantity":1.5}"#, 422, "unprocessable"),
        (r#"{"section":"B","quantity":"2"}"#, 422, "unprocessable"),
        (r#"{"section":"B"}"#, 422, "unprocessable"),
        (
            r#"{"section":"B","quantity":1,"seats":["B-1"]}"#,
            422,
            "unprocessable",
        ),
        (
            r#"{"section":"B","quantity":1,"price":1}"#,
            422,
            "unprocessable",
        ),
        (r#"{"section":"Z","quantity":1}"#, 422, "unprocessable"),
        (r#"{"seats":[]}"#, 422, "unprocessable"),
        (r#"{"seats":["B-1","B-1"]}"#, 422, "unprocessable"),
        (r#"{"seats":["GA-1"]}"#, 422, "unprocessable"),
        (r#"{"seats":["B-99"]}"#, 422, "unprocessable"),
        (&eleven, 422, "unprocessable"),
        ("{}", 422, "unprocessable"),
        ("[]", 422, "unprocessable"),
        ("", 400, "bad-json"),
        (r#"{"section":"#, 400, "bad-json"),
        ("{} {}", 400, "bad-json"),
        (&" ".repeat(70_000), 413, "too-large"),
    ] {
        let told = shop.send(post(1, "holds", body)).await;
        let said = (told.status.as_u16(), told.word());
        assert_eq!(said, (status, word), "{}", &body[..body.len().min(60)]);
    }
    let form = post(1, "holds", TWO)
        .without("content-type")
        .header("content-type", "text/plain");
    assert_eq!(shop.send(form).await.word(), "bad-json");

    let hold = shop.hold(1, 1).await.unwrap().id.to_string();
    let good = order_of(&hold);
    for (from, to, status) in [
        (hold.as_str(), "1", 400),
        ("ana@example.com", "ana", 422),
        (
            "ana@example.com",
            "ana@example.com\\r\\nBcc: all@example.com",
            422,
        ),
        (r#""email":"ana@example.com","#, "", 422),
        ("pt-BR", "pt-BR\",\"phone\":\"1", 422),
        (r#"{"hold_id""#, r#"{"total":1,"hold_id""#, 422),
        (r#"{"hold_id""#, r#"{"payment":{"token":""},"hold_id""#, 422),
        (
            r#"{"hold_id""#,
            r#"{"payment":{"token":"a b"},"hold_id""#,
            422,
        ),
        (r#"{"hold_id""#, r#"{"payment":{"amount":1},"hold_id""#, 422),
    ] {
        let told = shop.send(post(1, "orders", &good.replace(from, to))).await;
        assert_eq!(told.status.as_u16(), status, "{to}: {}", told.text);
    }
    assert_eq!(shop.send(post(1, "orders", &good)).await.status, 201);
    shop.audit(20).await;
}

async fn each_no_says_what_to_do(home: Home) {
    let shop = Shop::open(&home, &[("B", 2, true)]).await;
    let held = shop.send(post(1, "holds", TWO)).await;
    let again = shop.send(post(1, "holds", TWO)).await;
    assert_eq!(
        (again.status.as_u16(), again.word()),
        (409, "too-many-holds")
    );
    assert_eq!(again.body["holds"][0], held.body["hold_id"]);
    let taken = shop.send(post(2, "holds", TWO)).await;
    assert_eq!((taken.status.as_u16(), taken.word()), (409, "seats-taken"));
    assert_eq!(
        (&taken.body["free"], &taken.body["in_carts"]),
        (&0.into(), &true.into())
    );
    let taken = shop.send(post(2, "holds", r#"{"seats":["B-2"]}"#)).await;
    assert_eq!(taken.body["taken"][0], "B-2");

    let hold = held.body["hold_id"].as_str().unwrap().to_owned();
    let placed = shop.send(post(1, "orders", &order_of(&hold))).await;
    assert_eq!(placed.status, 201);
    assert_eq!(shop.send(post(1, "holds", TWO)).await.word(), "turn-over");
    let path = format!("holds/{hold}");
    assert_eq!(
        shop.send(ask(1, Method::DELETE, &path, "")).await.word(),
        "hold-ended"
    );
    shop.orders.settle().step().await.unwrap();
    let none = shop.send(post(2, "holds", TWO)).await;
    assert_eq!((none.status.as_u16(), none.word()), (409, "sold-out"));
}
