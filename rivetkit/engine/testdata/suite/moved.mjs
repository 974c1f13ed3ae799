// A program whose actors are begun with RivetKit 2.2 and go on with 2.3, which moves what they have into their databases.
import { actor, queue, setup } from "rivetkit";
import { db } from "rivetkit/db";
import { workflow } from "rivetkit/workflow";

const room = actor({
	createState: (_, input) => ({ title: input?.title, n: 0, big: 12345678901234567890n, when: new Date(1700000000000) }),
	queues: { jobs: queue(), later: queue() },
	actions: {
		bump: (c) => ++c.state.n,
		all: (c) => ({ ...c.state }),
		put: async (c) => {
			await c.kv.put("greeting", "hello");
			await c.kv.put("ü/x", "y");
		},
		got: async (c) => [await c.kv.get("greeting"), await c.kv.get("ü/x")],
		drain: async (c) => {
			const got = [];
			for (let i = 0; i < 3; i++) {
				const m = await c.queue.next({ names: ["jobs", "later"], timeout: 300 });
				if (m) got.push([m.name, m.body]);
			}
			return got;
		},
		plan: async (c) => void (await c.schedule.at(4102444800000, "ring", { loud: true }, 3)),
		ring: () => {},
		nap: (c) => c.sleep(),
	},
});
const sums = async (c) => (await c.db.execute("select count(*) n, sum(amount) s from entry"))[0];
const ledger = actor({
	state: {},
	db: db({ onMigrate: async (d) => void (await d.execute("create table if not exists entry(id integer primary key, what text, amount real)")) }),
	actions: {
		fill: async (c) => {
			for (let i = 0; i < 200; i++) await c.db.execute("insert into entry(what, amount) values(?, ?)", `entry ${i} ${"x".repeat(100)}`, i * 1.5);
			return sums(c);
		},
		sums,
		add: async (c) => void (await c.db.execute("insert into entry(what, amount) values ('new', 1)")),
		nap: (c) => c.sleep(),
	},
});
let priced = 0;
const order = actor({
	state: { log: [] },
	queues: { paid: queue() },
	run: workflow(async (w) => {
		const price = await w.step("price", async () => ({ cents: 1250, times: ++priced }));
		const paid = await w.queue.next("wait for money", { names: ["paid"] });
		await w.step("done", async (step) => void (step ?? w).state.log.push([price.cents, price.times, paid.body]));
		await w.sleep("for long", 1000 * 60 * 60 * 24 * 365);
	}),
	actions: {
		log: (c) => c.state.log,
		// How often this process has priced something.
		priced: () => priced,
		nap: (c) => c.sleep(),
	},
});
const registry = setup({ use: { room, ledger, order }, noWelcome: true });
if (process.env.GREENROOM_RUNNER) registry.startRunner();
else registry.start();
