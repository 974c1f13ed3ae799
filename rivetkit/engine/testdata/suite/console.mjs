// A client, c, that evaluates the lines of its input, and writes what each gives as JSON, or its error.
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { createClient } from "rivetkit/client";

const c = createClient({ endpoint: process.env.RIVET_ENDPOINT, encoding: process.env.GREENROOM_ENCODING, disableMetadataLookup: true, devtools: false });
const json = (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}n` : v)) ?? "undefined";
const kept = {}; // between lines
for await (const line of createInterface({ input: process.stdin })) {
	const late = wait(40_000).then(() => ({ error: "it takes too long" }));
	const done = eval(`(async () => ${line})()`).then((value) => ({ value }), (e) => ({ error: e.code ? `${e.group}.${e.code}` : `${e}` }));
	const { value, error } = await Promise.race([done, late]);
	console.log(`> ${error ? `error ${error}` : json(value)}`);
}
process.exit(0);
