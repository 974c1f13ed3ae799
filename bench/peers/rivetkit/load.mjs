// Calls an action of an actor of program.mjs with RivetKit's client: node load.mjs ACTION ws|http. It reads numbers, one a line, makes so many calls one
// after the other, and answers with the number and how long each took, in nanoseconds.
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { createClient } from "rivetkit/client";

const [action, way] = process.argv.slice(2);
const data = "x".repeat(100);
const client = createClient({ endpoint: process.env.RIVET_ENDPOINT, encoding: "bare", devtools: false });
let actor = client.bench.getOrCreate(["bench"]);
for (let tries = 1; ; tries++) { // until the program has connected
	try {
		await actor[action](data);
		break;
	} catch (e) {
		if (tries === 100) throw e;
		await wait(200);
	}
}
if (way === "ws") actor = actor.connect();
await actor[action](data);
for await (const line of createInterface({ input: process.stdin })) {
	const Took = [];
	for (let i = 0; i < Number(line); i++) {
		const begun = process.hrtime.bigint();
		await actor[action](data);
		Took.push(Number(process.hrtime.bigint() - begun));
	}
	console.log(line, JSON.stringify({ Took }));
}
process.exit(0);
