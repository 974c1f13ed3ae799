// A program and its clients, whose engine at RIVET_ENDPOINT ends and is started again: 20 actors, each with a client that is connected.
// It writes "ready" when all have answered. After a line on its input it asks each actor, with a request of its own and over its
// connection, until it answers, and writes what it saw as JSON. The line "renew" asks for new connections.
import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { actor, setup } from "rivetkit";
import { createClient } from "rivetkit/client";

const patience = 30_000;
// Instances of each actor that are awake in this process, and the keys of those that had two at once.
const awake = new Map(), twice = new Set();
const counter = actor({
	state: { clicks: 0 },
	onWake: (c) => {
		const n = (awake.get(`${c.key}`) ?? 0) + 1;
		awake.set(`${c.key}`, n);
		if (n > 1) twice.add(`${c.key}`);
	},
	onSleep: (c) => void awake.set(`${c.key}`, awake.get(`${c.key}`) - 1),
	actions: {
		save: async (c) => {
			c.state.clicks++;
			await c.saveState({ immediate: true });
			return c.state.clicks;
		},
		click: (c) => ++c.state.clicks,
		clicks: (c) => c.state.clicks,
	},
});
const registry = setup({ use: { counter }, noWelcome: true, logging: { level: "silent" } });
if (process.env.GREENROOM_RUNNER) registry.startRunner();
else registry.start();
const client = createClient({ endpoint: process.env.RIVET_ENDPOINT, disableMetadataLookup: true, devtools: false });
const handles = Array.from({ length: 20 }, (_, i) => client.counter.getOrCreate([`${i}`]));
const connections = handles.map((h) => h.connect());

// asked calls ask until it answers, and returns the answer and after how many milliseconds it came: no answer after patience.
async function asked(ask) {
	for (const from = Date.now(); ; await wait(50)) {
		const answer = await Promise.race([ask().catch(() => undefined), wait(5_000)]);
		const after = Date.now() - from;
		if (answer !== undefined || after > patience) return { answer, after };
	}
}
const all = (ask) => Promise.all(handles.map((h, i) => ask(h, connections[i])));

await asked(() => handles[0].clicks()); // the runner has connected
const saved = await all((h) => h.save());
await all((_, c) => c.click());
const answered = await all((h) => h.click());
console.log("ready");
const [line] = await once(process.stdin, "data");
if (line.toString().startsWith("renew")) {
	for (const [i, c] of connections.entries()) {
		void c.dispose();
		connections[i] = handles[i].connect();
	}
}
const [requests, overConnections] = await Promise.all([
	all((h) => asked(() => h.clicks())),
	all((_, c) => asked(() => c.clicks())),
]);
// What an instance that is about to end has answered may be gone a second later.
await wait(1_000);
const clicks = await all((h) => asked(() => h.click()));
const silent = (all) => all.filter((a) => a.answer === undefined).length;
const lost = (before) => clicks.map((a, i) => Math.max(0, before[i] + 1 - (a.answer ?? Infinity)));
const result = {
	silent: silent(requests), silentConnections: silent(overConnections), silentAfterwards: silent(clicks),
	after: requests.map((a) => a.after), connectionsAfter: overConnections.map((a) => a.after),
	lost: lost(answered), lostSaved: lost(saved), awake: awake.size, twice: twice.size,
};
console.log(JSON.stringify(result));
process.exit(0);
