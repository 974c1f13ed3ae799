"use strict";

// passing are the codes of errors after which to try again is right: with the same key it is
// even after an unknown outcome.
const passing = ["overloaded", "busy", "shutting_down", "unavailable", "actor_moved", "actor_in_use", "cancelled", "timeout", "unknown_outcome"];

// A Room is a connection to a chat room that comes back by itself. What was said and not
// answered is said again, with the same key, which the room says only once.
class Room {
  constructor(room, name, show) {
    this.room = room;
    this.name = name;
    this.show = show; // told of messages, and of how the connection is
    this.seen = 0; // up to this message all are shown
    this.catching = false; // older ones were asked for
    this.conn = null; // the connection's id and token, by which it is taken up again
    this.next = 1; // the id of the next request
    this.waiting = new Map(); // what was said, by its key, until it is answered
    this.asked = new Map(); // what a request's answer is for
    this.delay = 0;
    this.open();
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const protocols = ["greenroom.v1.json"];
    // A page can set no header: where a token is needed it is given as #token=…
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) {
      const text = btoa(token).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      protocols.push("greenroom.bearer." + text);
    }
    const url = `${scheme}//${location.host}/actors/chat/${encodeURIComponent(this.room)}/connect`;
    this.ready = false;
    this.socket = new WebSocket(url, protocols);
    this.socket.onopen = () => this.send(this.conn
      ? { type: "resume", conn: this.conn.id, token: this.conn.token }
      : { type: "connect", params: { name: this.name, since: this.seen } });
    this.socket.onmessage = (e) => this.take(JSON.parse(e.data));
    this.socket.onclose = () => this.again();
  }

  send(m) {
    this.socket.send(JSON.stringify(m));
  }

  // again connects anew, after a while that grows to some seconds.
  again() {
    if (this.refused) return;
    this.ready = false;
    this.catching = false;
    this.asked.clear();
    this.show.status("away");
    setTimeout(() => this.open(), this.delay);
    this.delay = Math.min(this.delay * 2 + 100, 5000);
  }

  take(m) {
    switch (m.type) {
      case "connected":
        this.connected(m);
        break;
      case "event":
        if (m.event === "message") this.message(m.body);
        if (m.event === "history") this.history(m.body);
        break;
      case "result":
      case "error":
        this.answered(m);
    }
  }

  connected(m) {
    const resumed = this.conn !== null;
    this.conn = { id: m.conn, token: m.token };
    this.ready = true;
    this.delay = 0;
    this.show.status("connected");
    // Events that came while the socket was gone are not sent later.
    if (resumed) this.catchUp();
    for (const key of this.waiting.keys()) this.push(key);
  }

  answered(m) {
    if (!m.id) { // the connection is refused
      if (m.code === "no_such_connection") {
        this.conn = null; // it was gone for too long: as somebody new
        this.delay = 0;
      } else if (!passing.includes(m.code)) {
        this.refused = true;
        this.show.status(m.message);
      }
      return;
    }
    const then = this.asked.get(m.id);
    this.asked.delete(m.id);
    if (then) then(m.type === "result" ? m.body : null, m);
  }

  ask(call, then) {
    const id = this.next++;
    this.asked.set(id, then);
    this.send({ type: "call", id, ...call });
  }

  // say says something, now or when the connection is there.
  say(text) {
    const key = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    this.waiting.set(key, text);
    this.show.waiting(key, this.name, text);
    if (this.ready) this.push(key);
  }

  push(key) {
    this.ask({ action: "say", args: { text: this.waiting.get(key), key } }, (message, answer) => {
      if (!message && passing.includes(answer.code)) {
        setTimeout(() => this.ready && this.waiting.has(key) && this.push(key), 500);
        return;
      }
      this.waiting.delete(key);
      this.show.said(key, message ? null : answer.message);
      if (message) this.message(message);
    });
  }

  // message shows a message. The ids grow by one, so that it is seen when some are missing.
  message(m) {
    this.show.message(m);
    if (m.id === this.seen + 1) this.seen = m.id;
    if (m.id > this.seen) this.catchUp();
  }

  // history shows the messages behind those that were seen. More are asked for until there
  // are none.
  history(list) {
    for (const m of list) {
      this.show.message(m);
      this.seen = Math.max(this.seen, m.id);
    }
    if (list.length > 0) this.catchUp();
  }

  catchUp() {
    if (this.catching || !this.ready) return;
    this.catching = true;
    this.ask({ action: "history", args: this.seen }, (list) => {
      this.catching = false;
      if (list) this.history(list);
    });
  }
}

const $ = (id) => document.getElementById(id);
const list = $("messages");

function line(name, text) {
  const li = document.createElement("li");
  const who = document.createElement("b");
  who.textContent = name;
  li.append(who, text);
  return li;
}

const show = {
  status(text) { $("status").textContent = text; },
  message(m) {
    if (list.querySelector(`[data-id="${m.id}"]`)) return;
    const li = line(m.name, m.text);
    li.dataset.id = m.id;
    const after = [...list.children].find((other) => !other.dataset.id || Number(other.dataset.id) > m.id);
    list.insertBefore(li, after ?? null);
  },
  waiting(key, name, text) {
    const li = line(name, text);
    li.className = "waiting";
    li.dataset.key = key;
    list.append(li);
  },
  said(key, problem) {
    list.querySelector(`[data-key="${key}"]`)?.remove();
    if (problem) this.status(problem);
  },
};

let room = null;
$("join").onsubmit = (e) => {
  e.preventDefault();
  $("join").hidden = true;
  $("say").hidden = false;
  room = new Room($("room").value, $("name").value, show);
  $("text").focus();
};
$("say").onsubmit = (e) => {
  e.preventDefault();
  room.say($("text").value);
  $("text").value = "";
};
