"""A plain shop: HTML, its own log-in, its own paths, SQLite. It stands behind a gate and does not know.

One line of it is for the gate: orders have a UNIQUE column for the ticket that the request came with,
so that a ticket buys once, whatever happens between the gate and the shop.

    python3 plain_shop.py [port]      the port is printed; 0 takes a free one
"""

import html
import secrets
import sqlite3
import sys
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs

db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
db.execute("create table sessions (id text primary key, name text not null)")
db.execute("create table orders (name text not null, seat text unique not null, ticket_id text unique)")
lock = Lock()  # the one connection is shared

PAGE = "<!doctype html><title>Plain Shop</title><link rel=stylesheet href=/css/shop.css><body>{}"
LOGIN = '<form method=post action=/login>Name <input name=name><button>Log in</button></form>'
BUY = '<form method=post action=/buy>Seat <input name=seat><button>Buy</button></form>'


class Shop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path == "/css/shop.css":
            return self.answer(200, "body { font-family: sans-serif }", "text/css")
        name = self.who()
        if self.path == "/":
            hello = f"<h1>Hello, {html.escape(name)}</h1>{BUY}" if name else LOGIN
            return self.answer(200, PAGE.format(hello))
        if self.path == "/account":
            cookies = ", ".join(sorted(SimpleCookie(self.headers.get("Cookie", ""))))
            with lock:
                seats = db.execute("select seat from orders where name = ?", [name]).fetchall()
            seats = html.escape(", ".join(seat for (seat,) in seats))
            return self.answer(200, PAGE.format(f"<p>Cookies: {cookies}.<p>Seats: {seats}."))
        self.answer(404, PAGE.format("<h1>No such page</h1>"))

    def do_POST(self):
        form = self.form()
        if self.path == "/login" and form.get("name"):
            session = secrets.token_urlsafe(16)
            with lock:
                db.execute("insert into sessions values (?, ?)", [session, form["name"]])
            cookie = f"session={session}; Path=/; HttpOnly; SameSite=Lax"
            return self.answer(303, "", headers=[("Location", "/"), ("Set-Cookie", cookie)])
        name = self.who()
        if self.path == "/buy" and name and form.get("seat"):
            return self.buy(name, form["seat"])
        self.answer(403, PAGE.format(LOGIN))

    def buy(self, name, seat):
        # The one line for the gate. Without a gate before the shop there is no ticket, and no rule.
        ticket_id = self.headers.get("X-Catraca-Ticket-Id")
        try:
            with lock:
                db.execute("insert into orders values (?, ?, ?)", [name, seat, ticket_id])
        except sqlite3.IntegrityError as refused:
            why = "This ticket has bought." if "ticket_id" in str(refused) else "The seat is taken."
            return self.answer(409, PAGE.format(f"<h1>{why}</h1>"))
        self.answer(200, PAGE.format(f"<h1>Seat {html.escape(seat)} is yours</h1>"))

    def who(self):
        session = SimpleCookie(self.headers.get("Cookie", "")).get("session")
        with lock:
            found = db.execute("select name from sessions where id = ?", [session and session.value])
            return (found.fetchone() or [None])[0]

    def form(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return {name: values[0] for name, values in parse_qs(body.decode()).items()}

    def answer(self, status, text, kind="text/html; charset=utf-8", headers=()):
        body = text.encode()
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int((sys.argv + ["0"])[1])), Shop)
print(server.server_address[1], flush=True)
server.serve_forever()
