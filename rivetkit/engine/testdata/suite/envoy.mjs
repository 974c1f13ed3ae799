// A program of RivetKit 2.3, with an actor of each kind of data: state, keys, a schedule, connections, a database, a queue and a workflow.
import { actor, queue, setup } from "rivetkit";
import { db } from "rivetkit/db";
import { workflow } from "rivetkit/workflow";

const options = { sleepTimeout: 3_000 };
const room = actor({
	state: { n: 0 },
	options,
	createConnState: (_, params) => ({ params: params ?? null }),
	onCreate: (c, input) => {
		c.state.n = input?.start ?? 0;
	},
	actions: {
		add: (c, x) => {
			c.state.n += x;
			c.broadcast("n", c.state.n);
			return c.state.n;
		},
		get: (c) => c.state.n,
		later: async (c, ms) => void (await c.schedule.after(ms, "add", 100)),
		fail: () => {
			throw new Error("boom");
		},
		keep: async (c, key, value) => {
			await c.kv.put(key, value);
			return await c.kv.get(key);
		},
		kept: (c, key) => c.kv.get(key),
		sleep: (c) => c.sleep(),
		destroy: (c) => c.destroy(),
	},
	onRequest: (_, req) => new Response(`raw ${new URL(req.url).pathname}`, { status: 201, headers: { "x-a": "b" } }),
});
const totals = async (c) => (await c.db.execute("select count(*) n, sum(length(v)) s from t"))[0];
const ledger = actor({
	state: { n: 0 },
	options,
	db: db({ onMigrate: async (d) => void (await d.execute("create table if not exists t(id integer primary key, v blob)")) }),
	actions: {
		put: async (c, n) => {
			for (let i = 0; i < n; i++) await c.db.execute("insert into t(v) values (?)", `v${i}`);
			c.state.n += n;
			return (await totals(c)).n;
		},
		// One transaction of so many bytes.
		many: async (c, n, size) => {
			await c.db.execute("begin");
			for (let i = 0; i < n; i++) await c.db.execute("insert into t(v) values (randomblob(?))", size);
			await c.db.execute("commit");
			return totals(c);
		},
		totals,
		shrink: async (c) => {
			await c.db.execute("delete from t where id > 5");
			await c.db.execute("vacuum");
			return totals(c);
		},
		check: async (c) => (await c.db.execute("pragma integrity_check"))[0].integrity_check,
		bad: async (c) => void (await c.db.execute("insert into nothere values (1)")),
		n: (c) => c.state.n,
		sleep: (c) => c.sleep(),
	},
	onRequest: async (_, req) => {
		let n = 0;
		for await (const part of req.body ?? []) n += part.length;
		return new Response(`${n}`);
	},
});
const worker = actor({
	state: { done: [] },
	options,
	queues: { jobs: queue() },
	run: async (c) => {
		for await (const m of c.queue.iter()) c.state.done.push(m.body);
	},
	actions: { done: (c) => c.state.done },
});
const flow = actor({
	state: { log: [] },
	run: workflow(async (w) => {
		const a = await w.step("one", async () => 41);
		await w.sleep("nap", 300);
		await w.step("two", async (step) => void (step ?? w).state.log.push(a + 1));
	}),
	actions: { log: (c) => c.state.log },
});
setup({ use: { room, ledger, worker, flow } }).start();
