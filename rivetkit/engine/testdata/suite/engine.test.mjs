// RivetKit's own driver tests, as they are published, against the engine at GREENROOM_ENGINE. With GREENROOM_AFTER_EACH that address
// is asked after every test: it kills the engine, looks at what it has stored, and starts it again. With GREENROOM_PROGRAM the program connects to
// another engine of the store, which is there.
import { createClientWithDriver, createEngineDriver } from "rivetkit";
import { runDriverTests } from "rivetkit/driver-test-suite";
import { afterEach } from "vitest";
import { suiteRegistry } from "./fixtures.mjs";

const endpoint = process.env.GREENROOM_ENGINE;
const home = process.env.GREENROOM_PROGRAM || endpoint;
const token = "none";
const registry = await suiteRegistry();

async function post(url, body) {
	const answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
	if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
}

const hook = process.env.GREENROOM_AFTER_EACH;
if (hook) afterEach(() => post(hook, {}));

runDriverTests({
	useRealTimers: true,
	skip: { inline: true, sandbox: true }, // the sandbox is a Docker container
	async start() {
		const namespace = `suite-${crypto.randomUUID()}`;
		const runnerName = "suite";
		await post(`${endpoint}/namespaces`, { name: namespace, display_name: namespace });
		Object.assign(registry.config, {
			driver: undefined, endpoint: home, namespace, token, test: { enabled: true }, serverless: undefined, managerPort: undefined,
			noWelcome: true, logging: { level: "silent" }, runner: { ...registry.config.runner, runnerName },
		});
		const config = registry.parseConfig();
		const engine = createEngineDriver();
		const manager = engine.manager(config);
		const client = createClientWithDriver(manager, {
			encoding: "bare", endpoint: home, namespace, token, runnerName, headers: {}, disableMetadataLookup: true, devtools: false,
		});
		const runner = engine.actor(config, manager, client);
		for (const until = Date.now() + 10_000; ; ) {
			const answer = await fetch(`${home}/runners?namespace=${namespace}&name=${runnerName}`);
			if ((await answer.json()).runners.length > 0) break;
			if (Date.now() > until) throw new Error("the runner doesn't connect");
			await new Promise((done) => setTimeout(done, 20));
		}
		return { endpoint, namespace, runnerName, cleanup: () => runner.shutdownRunner?.(true) };
	},
});
