//! A fan's whole way into a shop that knows nothing of us, in a browser that runs the waiting page's
//! scripts: to the room, through it, and to the till.

use crate::e2e::gateway::behind::Shop;
use crate::support::browser::Browser;
use crate::support::tab::Tab;

/// What the waiting page says of the fan.
fn is(state: &str) -> String {
    format!(
        "location.pathname === '/w/gala' && document.querySelector('main')?.dataset.state === '{state}'"
    )
}

/// Whether a page of the shop says this.
fn says(text: &str) -> String {
    format!("document.title === 'Plain Shop' && document.body.innerText.includes('{text}')")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fan_is_led_to_the_room_waits_comes_in_logs_in_and_buys() {
    let (Some(browser), Some(shop)) = (Browser::find(), Shop::open()) else {
        return;
    };
    let door = shop.gated().await;
    let home = format!("http://{}/", door.address);
    let mut tab = Tab::open(&browser).await;

    // A page of the shop is asked for, and the waiting page comes, which joins by itself.
    tab.go(&format!("{home}account")).await;
    tab.until("the fan is in line", &is("waiting")).await;
    let position = "document.querySelector('main').dataset.position";
    assert_eq!(tab.run(position).await, "1");
    tab.go(&home).await;
    tab.until("it is not their turn yet", &is("waiting")).await;

    // It is their turn: the page leads to the shop's address.
    door.call(1).await;
    tab.until("it is their turn", &is("admitted")).await;
    let enter = "document.querySelector('#enter')";
    assert_eq!(tab.run(&format!("{enter}.href")).await, home);
    tab.run(&format!("{enter}.click()")).await;
    tab.until("the shop asks who they are", &says("Log in"))
        .await;
    assert_eq!(tab.run("location.href").await, home);

    // The shop's own log-in, its own purchase, and its UNIQUE column.
    tab.submit("/login", "Ana").await;
    tab.until("the shop knows them", &says("Hello, Ana")).await;
    tab.submit("/buy", "A1").await;
    tab.until("they have bought", &says("Seat A1 is yours"))
        .await;
    tab.go(&home).await;
    tab.submit("/buy", "A2").await;
    tab.until("a ticket buys once", &says("This ticket has bought."))
        .await;
    tab.go(&format!("{home}account")).await;
    tab.until("the seat is theirs", &says("Seats: A1.")).await;
    assert_eq!(tab.run(&says("Cookies: session.")).await, true);

    // Scripts saw neither pass nor ticket, and nothing went wrong in any page.
    assert_eq!(tab.run("document.cookie").await, "");
    let wrong = |text: &&String| {
        ["Security Policy", "Uncaught", "Error:"]
            .iter()
            .any(|sign| text.contains(sign))
    };
    assert_eq!(tab.complaints.iter().find(wrong), None);
}
