import { connect } from "./greenroom.js";

const $ = (id) => document.getElementById(id);
const list = $("messages");

function line({ name, text, at }) {
  const li = document.createElement("li");
  const from = document.createElement("b");
  from.textContent = name;
  const time = document.createElement("time");
  const date = new Date(at);
  time.dateTime = date.toISOString();
  time.textContent = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  li.append(time, from, text);
  return li;
}

// show puts a line before another one, or last, and keeps the newest in view unless the reader has gone back.
function show(li, before = null) {
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
  list.insertBefore(li, before);
  if (atEnd) list.scrollTop = list.scrollHeight;
}

const status = (text) => { $("status").textContent = text; };

// A Room is what this page shows of a chat room.
class Room {
  constructor(room, name) {
    this.name = name;
    this.room = connect(location.origin, { type: "chat", key: room }, {
      params: () => ({ name, since: this.messages.seen ?? 0 }),
      // A page can set no header: where a token is needed it is given as #token=…
      token: () => new URLSearchParams(location.hash.slice(1)).get("token") ?? "",
    });
    this.room.onState((state, { error }) => status(state === "closed" ? error.message : state));
    // The room subscribes each guest, and sends what was said before as "history".
    this.messages = this.room.feed({
      event: "message", action: "history", subscribe: false,
      each: (m) => {
        const li = line(m);
        li.dataset.id = m.id;
        show(li, list.querySelector(".waiting"));
      },
    });
    this.room.on("history", (messages) => this.messages.take(messages));
  }

  // say says something, now or when the connection is there.
  async say(text) {
    const li = line({ name: this.name, text, at: Date.now() });
    li.className = "waiting";
    show(li);
    list.scrollTop = list.scrollHeight;
    try {
      await this.room.call("say", { text });
    } catch (err) {
      status(err.message);
    }
    li.remove();
  }
}

let room = null;
$("join").onsubmit = (e) => {
  e.preventDefault();
  $("join").hidden = true;
  $("say").hidden = false;
  $("title").textContent = document.title = $("room").value;
  room = new Room($("room").value, $("name").value);
  $("text").focus();
};
$("say").onsubmit = (e) => {
  e.preventDefault();
  room.say($("text").value);
  $("text").value = "";
};
