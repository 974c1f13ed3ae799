// RivetKit's published packages do bench's work on a key-value store in memory, which counts
// what it is asked for. It prints one JSON object a line. Nothing here waits for a disk or a
// network: a call takes as long as a Map does, so calls_per_op is what to compare.
//
//	npm install && node run.mjs [SECONDS]
//
// SECONDS is how long each workload runs, 1 if it isn't given.
import { SqliteVfs } from "@rivetkit/sqlite-vfs";
import { createTraces } from "@rivetkit/traces";
import { Loop, runWorkflow } from "@rivetkit/workflow-engine";

const seconds = Number(process.argv[2] ?? 1);

// Memory is an ordered store by the text of its keys in hexadecimal digits, which sort as bytes do.
class Memory {
	entries = new Map();
	calls = { reads: 0, writes: 0 };

	static #hex = (key) => Buffer.from(key).toString("hex");

	async get(key) {
		this.calls.reads++;
		return this.entries.get(Memory.#hex(key))?.value ?? null;
	}
	async getBatch(keys) {
		this.calls.reads++;
		return keys.map((k) => this.entries.get(Memory.#hex(k))?.value ?? null);
	}
	async list(prefix) {
		this.calls.reads++;
		const start = Memory.#hex(prefix);
		return this.#sorted((hex) => hex.startsWith(start));
	}
	async listRange(start, end, { reverse = false, limit = Infinity } = {}) {
		this.calls.reads++;
		const [low, high] = [Memory.#hex(start), Memory.#hex(end)];
		const found = this.#sorted((hex) => hex >= low && hex < high);
		return (reverse ? found.reverse() : found).slice(0, limit);
	}
	#sorted(wanted) {
		return [...this.entries].filter(([hex]) => wanted(hex)).sort(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
	}
	#put(key, value) {
		this.entries.set(Memory.#hex(key), { key: key.slice(), value: value.slice() });
	}
	async put(key, value) {
		this.calls.writes++;
		this.#put(key, value);
	}
	set = this.put;
	async putBatch(pairs) {
		this.calls.writes++;
		for (const [key, value] of pairs) this.#put(key, value);
	}
	async batch(writes) {
		this.calls.writes++;
		for (const { key, value } of writes) this.#put(key, value);
	}
	async delete(key) {
		this.calls.writes++;
		this.entries.delete(Memory.#hex(key));
	}
	async deleteBatch(keys) {
		this.calls.writes++;
		for (const key of keys) this.entries.delete(Memory.#hex(key));
	}
	async deletePrefix(prefix) {
		this.calls.writes++;
		const start = Memory.#hex(prefix);
		for (const hex of [...this.entries.keys()]) if (hex.startsWith(start)) this.entries.delete(hex);
	}
	// What RivetKit's drivers have besides.
	workerPollInterval = 100;
	messageDriver = { addMessage: async () => {}, receiveMessages: async () => [], completeMessage: async () => {} };
	async setAlarm() {}
	async clearAlarm() {}
	async waitForMessages() {}
}

// measure does an operation again and again, a few times before it counts.
async function measure(name, unit, kv, operation, atOnce = 1) {
	for (let i = 0; i < 3; i++) await operation();
	kv.calls = { reads: 0, writes: 0 };
	let n = 0;
	const start = performance.now();
	do {
		await operation();
		n += atOnce;
	} while (performance.now() - start < 1000 * seconds);
	report(name, unit, kv, n, performance.now() - start);
}

function report(name, unit, kv, n, ms) {
	const reads = kv.calls.reads / n, commits = kv.calls.writes / n;
	console.log(JSON.stringify({
		name, subject: "rivetkit", unit, subject_median: (1000 * n) / ms,
		reads_per_op: reads, commits_per_op: commits, calls_per_op: reads + commits,
	}));
}

const blob = new Uint8Array(100).map((_, i) => (i * 151 + 7) % 256);

async function database(vfs, name, kv) {
	const db = await vfs.open(name, kv);
	await db.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b BLOB NOT NULL)");
	return db;
}

const functions = (kv) => Object.fromEntries(["get", "getBatch", "put", "putBatch", "deleteBatch"].map((f) => [f, kv[f].bind(kv)]));

async function insertMany(db, rows) {
	await db.exec("BEGIN");
	for (let a = 1; a <= rows; a++) await db.run("INSERT INTO t(a, b) VALUES(?, ?)", [a, blob]);
	await db.exec("COMMIT");
}

async function sqlite() {
	const vfs = new SqliteVfs();
	let kv = new Memory(), a = 0;
	let db = await database(vfs, "insert", functions(kv));
	await measure("sqlite/insert-1", "txn/s", kv, () => db.run("INSERT INTO t(a, b) VALUES(?, ?)", [++a, blob]));
	await db.close();

	kv = new Memory();
	db = await database(vfs, "bulk", functions(kv));
	await measure("sqlite/bulk", "txn/s", kv, () => insertMany(db, 10_000));
	await db.close();

	kv = new Memory();
	db = await database(vfs, "point", functions(kv));
	await insertMany(db, 10_000);
	await measure("sqlite/point", "query/s", kv, () => db.query("SELECT a, b FROM t WHERE id = ?", [1 + Math.floor(Math.random() * 10_000)]));
	await db.exec("PRAGMA cache_size = -256");
	await measure("sqlite/scan of 10,000 rows", "query/s", kv, () => db.query("SELECT count(a), sum(a) FROM t"));
	await db.close();
	await vfs.destroy();
}

// Steps are counted by the loop that they are in: a workflow runs for the whole time.
async function workflow() {
	const kv = new Memory();
	const unmeasured = 20; // the loop's own flush comes with every twentieth
	let n = -unmeasured, start = 0;
	const handle = runWorkflow("bench", async (ctx) => {
		await ctx.loop({
			name: "loop", state: 0, run: async (c, i) => {
				await c.step("step", async () => [...blob]);
				n++;
				if (n === 0) [start, kv.calls] = [performance.now(), { reads: 0, writes: 0 }];
				const over = n > 0 && performance.now() - start > 1000 * seconds;
				return over ? Loop.break(i) : Loop.continue(i + 1);
			},
		});
	}, undefined, kv, { mode: "live" });
	await handle.result;
	report("workflow/step", "step/s", kv, n, performance.now() - start);
}

async function traces() {
	const kv = new Memory();
	const recorder = createTraces({ driver: kv });
	const spans = 1000;
	let i = 0;
	await measure("traces/span", "span/s", kv, async () => {
		for (let k = 0; k < spans; k++, i++) {
			const span = recorder.startSpan("actor.action.add", { kind: 2, attributes: {
				"rivet.actor.id": "hodf9r0nebitxihti137r3va5c0000", "rivet.actor.name": "counter", "rivet.action.name": "add",
				"rivet.queue.message_id": i, "rivet.action.scheduled": i % 2 === 0,
			} });
			recorder.emitEvent(span, "queue.message.receive", { attributes: { "rivet.queue.latency_ms": (i % 1000) / 8 } });
			recorder.emitEvent(span, "queue.message.complete");
			recorder.endSpan(span, { status: { code: "OK" } });
		}
		await recorder.flush();
	}, spans);
}

await sqlite();
await workflow();
await traces();
