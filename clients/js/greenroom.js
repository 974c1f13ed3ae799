// A client of Greenroom's hosts, for browsers and Node. docs/javascript.md tells how to use it, docs/front.md what is sent.

/**
 * @typedef {{ type: string, key: string }} Address of an actor
 *
 * @typedef {"connecting" | "connected" | "away" | "closed"} State of a connection: away is one that is being taken up again, and closed one that never is
 *
 * @typedef {object} CallOptions
 * @property {string | null} [idempotencyKey] Makes it safe to send the call again: 1 to 128 characters of printable ASCII. Without it one is made up; null
 *   sends the call without a key and at most once, so that it fails with unknown_outcome when its answer is lost.
 * @property {boolean} [idempotent] The action may run twice and no harm is done, as one that only reads: it is sent again, without a key.
 * @property {AbortSignal} [signal] Ends the wait for the answer, with the signal's reason. What was sent may have landed.
 *
 * @typedef {string | (() => string | Promise<string>)} Token is a bearer token, or returns the one of now
 *
 * @typedef {object} InvokeOptionsOwn
 * @property {Token} [token]
 * @property {number} [retries] How often the call is sent again, 4 unless it is given.
 * @typedef {CallOptions & InvokeOptionsOwn} InvokeOptions
 *
 * @typedef {{ [action: string]: { args: any, result: any } }} ActionTypes what the actions of a type take and return
 *
 * @typedef {object} ConnectOptions
 * @property {unknown} [params] What the actor's Connect gets, or a function that returns it: of each new connection.
 * @property {Token} [token]
 * @property {boolean} [hibernate] False for a connection that keeps its actor awake and ends with its socket.
 * @property {AbortSignal} [signal] Closes the connection.
 * @property {number} [maxCalls] Calls that may wait for their answers, 1000 unless it is given.
 * @property {number} [maxBytes] Bytes of these calls, 4 MiB unless it is given.
 * @property {number} [answerTimeout] Milliseconds without a message after which a socket that owes an answer is given up, 45,000 unless it is given.
 * @property {typeof WebSocket} [WebSocket] For where the global one is missing.
 *
 * @typedef {object} FeedOptions
 * @property {string} event The event that brings each new message.
 * @property {string} action Gets a number, and returns the next messages behind it in their order, none if there are none.
 * @property {(message: any) => void} each Is told each message once, in their order.
 * @property {(message: any) => number} [number] The number of a message, its member id unless this is given. Numbers grow, by one as a rule.
 * @property {number} [since] The last message that is known. Without it the feed begins with what comes first.
 * @property {boolean} [subscribe] False if the actor's Connect has subscribed the connection.
 * @property {(error: unknown) => void} [failed] Is told what ends the feed for now; it is thrown where nothing catches it unless this is given.
 */

// After these codes nothing has landed, and to try again may help.
const passing = new Set(["overloaded", "busy", "shutting_down", "unavailable", "host_unreachable", "actor_moved", "actor_in_use", "newer_schema", "cancelled",
  "timeout", "queue_full", "outbox_full", "too_fast", "too_many_requests", "unreachable", "too_many_calls"]);

const window = 16; // requests of one socket that a host lets wait
const maxMessage = 1 << 20; // bytes that a host takes at once
const longestPause = 5000; // milliseconds

/** What a call, or a connection, fails with. */
export class GreenroomError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ status?: number, cause?: unknown, retryable?: boolean }} [more]
   */
  constructor(code, message, more = {}) {
    super(message, { cause: more.cause });
    this.name = "GreenroomError";
    /** A word for programs. */
    this.code = code;
    /** Whether the same may be tried again: nothing has landed, or what has is known by its key. */
    this.retryable = more.retryable ?? passing.has(code);
    /** The HTTP status, of an answer over HTTP. */
    this.status = more.status;
  }
}

/** @param {() => void} f calls what isn't the client's own: what it throws goes to where nothing catches it */
function apart(f) {
  try {
    f();
  } catch (err) {
    queueMicrotask(() => { throw err; });
  }
}

// pause is how long to wait after so many failures, in milliseconds.
/** @param {number} failures */
const pause = (failures) => Math.min(100 * 2 ** Math.min(failures, 10), longestPause) * (0.5 + Math.random() / 2);

/** @param {CallOptions} o @returns {{ key: string | null, again: boolean }} */
function repetition(o) {
  const key = o.idempotent || o.idempotencyKey === null ? null : o.idempotencyKey ?? newKey();
  return { key, again: key !== null || o.idempotent === true };
}

// randomUUID isn't there for pages that came over plain HTTP.
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

/** @param {string} text */
const base64url = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)))
  .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

/** @template T @param {T | (() => T | Promise<T>)} v @returns {Promise<T>} */
const valueOf = async (v) => typeof v === "function" ? /** @type {() => T} */ (v)() : v;

/** @param {string | URL} base @param {Address} a @param {string} rest */
function addressURL(base, a, rest) {
  const url = new URL(base);
  url.pathname = [url.pathname.replace(/\/$/, ""), "actors", encodeURIComponent(a.type), encodeURIComponent(a.key), rest].join("/");
  return url;
}

/** @param {string | undefined} token @returns {Record<string, string>} */
const authorization = (token) => token ? { Authorization: `Bearer ${token}` } : {};

/** @param {Response} response @param {string} text */
function problemOf(response, text) {
  const { status } = response;
  try {
    const told = JSON.parse(text);
    if (typeof told.code === "string") return new GreenroomError(told.code, String(told.message), { status });
  } catch { // it is the answer of something in between
  }
  const code = status === 429 ? "too_many_requests" : status >= 500 ? "unknown_outcome" : "bad_response";
  return new GreenroomError(code, `The answer has status ${status} and nothing else that is known.`, { status });
}

/** @param {Response} response @returns {number} milliseconds */
function retryAfter(response) {
  const text = response.headers.get("Retry-After");
  if (!text) return 0;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now();
  return ms > 0 ? ms : 0;
}

/** @param {number} ms @param {AbortSignal} [signal] */
const sleep = (ms, signal) => new Promise((done, fail) => {
  const timer = setTimeout(end, ms);
  function end() {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
    if (signal?.aborted) fail(signal.reason);
    else done(undefined);
  }
  signal?.addEventListener("abort", end);
});

/**
 * Calls an action over HTTP, and returns its result. What fails and may pass is tried again, no sooner than the host asks for.
 * @param {string | URL} baseURL
 * @param {Address} address
 * @param {string} action
 * @param {unknown} [args] one value
 * @param {InvokeOptions} [options]
 * @returns {Promise<any>}
 */
export async function invoke(baseURL, address, action, args, options = {}) {
  const { signal, retries = 4 } = options;
  const { key, again } = repetition(options);
  const url = addressURL(baseURL, address, `actions/${encodeURIComponent(action)}`);
  const body = args === undefined ? undefined : JSON.stringify(args);
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (key !== null) headers["Idempotency-Key"] = key;
  for (let failures = 0; ; failures++) {
    signal?.throwIfAborted();
    Object.assign(headers, authorization(await valueOf(options.token)));
    let failure, least = 0;
    try {
      const response = await fetch(url, { method: "POST", headers, body, signal });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      failure = problemOf(response, text);
      least = retryAfter(response);
    } catch (cause) {
      signal?.throwIfAborted();
      failure = cause instanceof SyntaxError ? new GreenroomError("bad_response", "The answer is not JSON.", { cause })
        : new GreenroomError(again ? "unreachable" : "unknown_outcome", "No answer came.", { cause });
    }
    if (again && failure.code === "unknown_outcome") failure.retryable = true;
    if (!failure.retryable || failures >= retries) throw failure;
    await sleep(least + pause(failures), signal);
  }
}

/**
 * Connects to an actor. It doesn't wait: calls may be made at once, and are sent when the connection is there.
 * @param {string | URL} baseURL http: or https:
 * @param {Address} address
 * @param {ConnectOptions} [options]
 */
export const connect = (baseURL, address, options = {}) => new Connection(baseURL, address, options);

/**
 * Returns invoke and connect with the types of a host's actors, which greenroom-types writes: client<Actors>(baseURL, { token }).
 * @template {{ [K in keyof S]: ActionTypes }} [S={ [type: string]: ActionTypes }]
 * @param {string | URL} baseURL
 * @param {{ token?: Token }} [defaults] of each call and connection
 */
export const client = (baseURL, defaults = {}) => ({
  /**
   * @template {keyof S & string} T
   * @template {keyof S[T] & string} N
   * @param {{ type: T, key: string }} address
   * @param {N} action
   * @param {S[T][N]["args"]} [args]
   * @param {InvokeOptions} [options]
   * @returns {Promise<S[T][N]["result"]>}
   */
  invoke: (address, action, args, options) => invoke(baseURL, address, action, args, { ...defaults, ...options }),
  /**
   * @template {keyof S & string} T
   * @param {{ type: T, key: string }} address
   * @param {ConnectOptions} [options]
   */
  connect: (address, options) => /** @type {Connection<S[T]>} */ (connect(baseURL, address, { ...defaults, ...options })),
});

/**
 * @typedef {object} Waiting is a request that isn't answered
 * @property {string} text as it is sent, each time the same
 * @property {number} bytes
 * @property {boolean} again
 * @property {number} failures
 * @property {ReturnType<typeof setTimeout>} [paused]
 * @property {string} [subscribes]
 * @property {(result: any) => void} resolve
 * @property {(reason: unknown) => void} reject
 */

/**
 * A connection to an actor, which comes back by itself.
 * @template {ActionTypes} [A=ActionTypes] the actor's actions
 */
export class Connection {
  #url;
  #options;
  /** @type {State} */
  #state = "connecting";
  /** @type {WebSocket | null} */
  #socket = null;
  /** @type {{ conn: string, token: string } | null} by which the connection is taken up again */
  #joined = null;
  /** @type {GreenroomError | null} what the host has said before it closes the socket */
  #refused = null;
  #failures = 0; // in a row
  #since = 0; // when the socket was connected, in milliseconds
  #next = 1; // the id of the next request
  /** @type {Map<number, Waiting>} in their order */
  #waiting = new Map();
  #bytes = 0; // of them
  /** @type {Set<number>} the requests that this socket has to answer */
  #sent = new Set();
  /** @type {Set<string>} */
  #subscribed = new Set();
  /** @type {Map<string, Set<(body: any) => void>>} */
  #listeners = new Map();
  /** @type {Set<(state: State, more: { resumed?: boolean, error?: unknown }) => void>} */
  #watchers = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} of the next attempt */
  #retry;
  /** @type {ReturnType<typeof setTimeout> | undefined} of a socket that owes something */
  #silence;

  /** @param {string | URL} baseURL @param {Address} address @param {ConnectOptions} options */
  constructor(baseURL, address, options) {
    this.#url = addressURL(baseURL, address, "connect");
    this.#options = { maxCalls: 1000, maxBytes: 4 << 20, answerTimeout: 45_000, WebSocket: globalThis.WebSocket, ...options };
    if (!this.#options.WebSocket) throw new GreenroomError("no_websocket", "WebSocket is missing: Node has one from version 22, else give one.");
    options.signal?.throwIfAborted();
    options.signal?.addEventListener("abort", () => this.#end(options.signal?.reason), { once: true });
    this.#open();
  }

  get state() { return this.#state; }

  /**
   * Calls an action, and returns its result. Calls are sent in their order; one that the host refuses for now comes behind later ones.
   * @template {keyof A & string} N
   * @param {N} action
   * @param {A[N]["args"]} [args] one value
   * @param {CallOptions} [options]
   * @returns {Promise<A[N]["result"]>}
   */
  call(action, args, options = {}) {
    const { key, again } = repetition(options);
    return this.#ask({ type: "call", action, args, ...key !== null && { idempotencyKey: key } }, again, options.signal);
  }

  /**
   * Has the actor's broadcasts of an event sent here, from now on. Without it only those events come for which the actor has subscribed the connection, and
   * those that it sends to this one alone.
   * @param {string} event
   * @returns {Promise<void>}
   */
  async subscribe(event) {
    this.#subscribed.add(event);
    try {
      await this.#ask({ type: "subscribe", event }, true, undefined, event);
    } catch (err) {
      this.#subscribed.delete(event);
      throw err;
    }
  }

  /** @param {string} event @returns {Promise<void>} */
  async unsubscribe(event) {
    this.#subscribed.delete(event);
    await this.#ask({ type: "unsubscribe", event }, true);
  }

  /**
   * Has a function told of each event of a name that comes, and returns what ends that. Events that are sent while the connection is away are lost: see feed.
   * @param {string} event
   * @param {(body: any) => void} listener
   */
  on(event, listener) {
    let all = this.#listeners.get(event);
    if (!all) this.#listeners.set(event, all = new Set());
    all.add(listener);
    return () => { all.delete(listener); };
  }

  /**
   * Has a function told of each change of the state, and returns what ends that. resumed is whether the connection is the one of before, error why it is
   * away or closed, if that is known.
   * @param {(state: State, more: { resumed?: boolean, error?: unknown }) => void} watcher
   */
  onState(watcher) {
    this.#watchers.add(watcher);
    return () => { this.#watchers.delete(watcher); };
  }

  /**
   * Follows messages that the actor keeps: each is told once and in order, also what was sent while the connection was away.
   * @param {FeedOptions} options
   */
  feed(options) { return new Feed(this, options); }

  /** Ends the connection, here and at the actor. What isn't answered fails with the code closed. */
  close() { this.#end(new GreenroomError("closed", "The connection was closed.")); }

  /** @param {unknown} error */
  #end(error) {
    if (this.#state === "closed") return;
    const socket = this.#socket;
    this.#socket = null;
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    for (const id of [...this.#waiting.keys()]) this.#settle(id)?.reject(error);
    this.#change("closed", { error });
    socket?.close(1000);
  }

  /** @param {State} state @param {{ resumed?: boolean, error?: unknown }} more */
  #change(state, more) {
    if (state === this.#state) return;
    this.#state = state;
    for (const watcher of [...this.#watchers]) apart(() => watcher(state, more));
  }

  async #open() {
    let socket, token, opened = false;
    /** @type {object} */
    let first;
    try {
      const { params, hibernate } = this.#options;
      token = await valueOf(this.#options.token);
      first = this.#joined ? { type: "resume", ...this.#joined } : { type: "connect", params: await valueOf(params), hibernate };
    } catch (err) { // of the program's own, which may pass as the network comes back
      this.#again(err);
      return;
    }
    if (this.#state === "closed") return;
    const url = new URL(this.#url);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const protocols = ["greenroom.v1.json"];
    if (token) protocols.push("greenroom.bearer." + base64url(token));
    try {
      socket = new this.#options.WebSocket(url.href, protocols);
    } catch (err) {
      this.#end(err);
      return;
    }
    this.#socket = socket;
    this.#refused = null;
    this.#since = 0;
    /** @param {number} code @param {string} reason */
    const lost = (code, reason) => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#lost(code, reason, opened ? null : token ?? "");
    };
    socket.onopen = () => {
      opened = true;
      if (this.#socket === socket) socket.send(JSON.stringify(first));
    };
    socket.onmessage = (e) => { if (this.#socket === socket) this.#take(JSON.parse(e.data)); };
    socket.onclose = (e) => lost(e.code, e.reason);
    socket.onerror = () => lost(1006, ""); // not every WebSocket is closed after it
    this.#watch();
  }

  // watch gives up the socket when it owes something and is silent.
  #watch() {
    clearTimeout(this.#silence);
    const socket = this.#socket;
    if (!socket || this.#since && this.#sent.size === 0) return;
    this.#silence = setTimeout(() => {
      this.#socket = null;
      socket.close();
      this.#lost(1006, "", null);
    }, this.#options.answerTimeout);
  }

  // lost goes on when the socket has ended; token is that of one that was never open.
  /** @param {number} code @param {string} reason @param {string | null} token */
  async #lost(code, reason, token) {
    clearTimeout(this.#silence);
    const stood = this.#since ? Date.now() - this.#since : 0;
    if (stood > pause(this.#failures)) this.#failures = 0;
    const sent = [...this.#sent].filter((id) => this.#waiting.has(id));
    this.#sent.clear();
    for (const id of sent) {
      if (!this.#waiting.get(id)?.again) this.#settle(id)?.reject(new GreenroomError("unknown_outcome", "The connection broke before the answer."));
    }
    if (code === 1009) { // one of them was too large for the host, so that the largest one was
      const largest = sent.sort((a, b) => (this.#waiting.get(b)?.bytes ?? 0) - (this.#waiting.get(a)?.bytes ?? 0))[0];
      this.#settle(largest)?.reject(new GreenroomError("body_too_large", "This is more than may be sent at once."));
    }
    /** @type {GreenroomError | null} */
    let error = this.#refused;
    if (code === 4000) error ??= new GreenroomError("bad_message", reason);
    if (code === 4001) error = new GreenroomError("disconnected", reason);
    if (token !== null) error = await this.#why(token);
    if (error?.code === "no_such_connection" && this.#joined) {
      this.#joined = null; // the client was away for too long
    } else if (error && !error.retryable && !(error.code === "unauthorized" && typeof this.#options.token === "function" && stood)) {
      this.#end(error);
      return;
    }
    this.#again(error);
  }

  // why asks what a WebSocket doesn't tell: the answer to a request that it has begun with. It is null for what may pass.
  /** @param {string} token @returns {Promise<GreenroomError | null>} */
  async #why(token) {
    try {
      const response = await fetch(this.#url, { headers: authorization(token), signal: AbortSignal.timeout(10_000) });
      const problem = problemOf(response, await response.text());
      return ["upgrade_required", "bad_response", "unknown_outcome"].includes(problem.code) ? null : problem;
    } catch {
      return null;
    }
  }

  /** @param {unknown} error */
  #again(error) {
    if (this.#state === "closed") return;
    this.#change("away", { error });
    if (this.state !== "closed") this.#retry = setTimeout(() => this.#open(), pause(this.#failures++));
  }

  /** @param {any} m a message of the host */
  #take(m) {
    switch (m.type) {
      case "connected":
        this.#connected(m);
        break;
      case "event":
        for (const listener of [...this.#listeners.get(m.event) ?? []]) apart(() => listener(m.body));
        break;
      case "result":
      case "error":
        if (m.id) this.#answered(m);
        else this.#refused = new GreenroomError(m.code, m.message); // the socket is closed next
    }
    if (m.type !== "connected" && !this.#refused) this.#failures = 0;
    this.#watch();
  }

  /** @param {any} m */
  #connected(m) {
    const resumed = this.#joined?.conn === m.conn;
    this.#joined = m.token ? { conn: m.conn, token: m.token } : null;
    this.#since = Date.now();
    if (!resumed) this.#resubscribe();
    for (const r of this.#waiting.values()) {
      clearTimeout(r.paused);
      r.paused = undefined;
    }
    this.#change("connected", { resumed });
    this.#pump();
  }

  // resubscribe subscribes a new connection to what an earlier one was subscribed to, before all else.
  #resubscribe() {
    const later = this.#waiting;
    const asked = new Set([...later.values()].map((r) => r.subscribes));
    this.#waiting = new Map();
    for (const event of this.#subscribed) {
      if (!asked.has(event)) this.subscribe(event).catch((err) => this.#end(err));
    }
    for (const [id, r] of later) this.#waiting.set(id, r);
  }

  /** @param {object} request @param {boolean} again @param {AbortSignal} [signal] @param {string} [subscribes] @returns {Promise<any>} */
  #ask(request, again, signal, subscribes) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#state === "closed") throw new GreenroomError("closed", "The connection is closed.");
      const id = this.#next++;
      const text = JSON.stringify({ ...request, id });
      const bytes = new TextEncoder().encode(text).length;
      if (bytes > maxMessage) throw new GreenroomError("body_too_large", "This is more than may be sent at once.");
      const full = this.#waiting.size >= this.#options.maxCalls || this.#waiting.size > 0 && this.#bytes + bytes > this.#options.maxBytes;
      if (full && !subscribes) {
        throw new GreenroomError("too_many_calls", "Too many calls wait for their answers.");
      }
      const abort = () => { this.#settle(id)?.reject(signal?.reason); };
      signal?.addEventListener("abort", abort);
      const off = () => signal?.removeEventListener("abort", abort);
      this.#bytes += bytes;
      this.#waiting.set(id, {
        text, bytes, again, subscribes, failures: 0,
        resolve: (result) => { off(); resolve(result); },
        reject: (reason) => { off(); reject(reason); },
      });
      this.#pump();
    });
  }

  // settle takes a request out of those that wait.
  /** @param {number} id */
  #settle(id) {
    const r = this.#waiting.get(id);
    if (!r) return undefined;
    clearTimeout(r.paused);
    this.#waiting.delete(id);
    this.#bytes -= r.bytes;
    return r;
  }

  // pump sends what the host takes now.
  #pump() {
    if (this.#state !== "connected" || !this.#socket) return;
    for (const [id, r] of this.#waiting) {
      if (this.#sent.size >= window) break;
      if (this.#sent.has(id) || r.paused) continue;
      this.#sent.add(id);
      this.#socket.send(r.text);
    }
    this.#watch();
  }

  /** @param {any} m */
  #answered(m) {
    this.#sent.delete(m.id);
    const r = this.#waiting.get(m.id);
    if (r && m.type === "result") {
      this.#settle(m.id)?.resolve(m.body);
    } else if (r) {
      const error = new GreenroomError(m.code, m.message);
      if (error.retryable || r.again && m.code === "unknown_outcome") {
        r.paused = setTimeout(() => {
          r.paused = undefined;
          this.#pump();
        }, pause(r.failures++));
      } else {
        this.#settle(m.id)?.reject(error);
      }
    }
    this.#pump();
  }
}

/** Messages that an actor keeps and numbers, each once and in their order. */
export class Feed {
  #connection;
  #options;
  /** @type {number | undefined} */
  #seen;
  #busy = false; // older ones were asked for
  #more = false; // they are to be asked for again

  /** @param {Connection} connection @param {FeedOptions} options */
  constructor(connection, options) {
    this.#connection = connection;
    this.#options = options;
    this.#seen = options.since;
    connection.on(options.event, (m) => this.#event(m));
    connection.onState((state, { resumed }) => { if (state === "connected") this.#connected(resumed); });
    if (options.subscribe !== false) connection.subscribe(options.event).catch((err) => this.#fail(err));
    if (connection.state === "connected") this.#connected(false);
  }

  /** The number of the newest message that was told, undefined as long as nothing is known. */
  get seen() { return this.#seen; }

  /**
   * Takes messages that have come by another way, in their order, such as those that the actor sends when it is connected to.
   * @param {any[]} messages
   */
  take(messages) {
    this.#add(messages);
    if (messages.length > 0) this.#catchUp();
  }

  /** @param {boolean} [resumed] */
  #connected(resumed) {
    if (resumed || this.#seen !== undefined) this.#catchUp();
  }

  /** @param {any} m */
  #number(m) { return this.#options.number ? this.#options.number(m) : m.id; }

  /** @param {any[]} messages */
  #add(messages) {
    let seen = this.#seen ??= 0;
    for (const m of messages) {
      const n = this.#number(m);
      if (n <= seen) continue;
      seen = n;
      this.#seen = n;
      apart(() => this.#options.each(m));
    }
  }

  /** @param {any} m */
  #event(m) {
    const n = this.#number(m);
    if (this.#seen === undefined || n === this.#seen + 1) this.#add([m]);
    else if (n > this.#seen) this.#catchUp(); // some are missing
  }

  async #catchUp() {
    this.#more = true;
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#more) {
        this.#more = false;
        const messages = await this.#connection.call(this.#options.action, this.#seen ?? 0, { idempotent: true });
        this.#add(messages);
        if (messages.length > 0) this.#more = true;
      }
    } catch (err) {
      if (err instanceof GreenroomError && err.retryable) setTimeout(() => this.#catchUp(), pause(10));
      else this.#fail(err);
    } finally {
      this.#busy = false;
    }
  }

  /** @param {unknown} err */
  #fail(err) {
    if (this.#connection.state === "closed") return; // its watchers are told
    apart(() => {
      if (!this.#options.failed) throw err;
      this.#options.failed(err);
    });
  }
}
