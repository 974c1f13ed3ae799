// The actors of RivetKit's suite. rivetkit/serve-test-suite has their registry inside and doesn't export it, but asks it for
// its configuration before it does anything else.
import { Registry } from "rivetkit";
import { serveTestSuite } from "rivetkit/serve-test-suite";

export async function suiteRegistry() {
	const original = Registry.prototype.parseConfig;
	let found;
	Registry.prototype.parseConfig = function () {
		found = this;
		throw new Error("seen");
	};
	try {
		await serveTestSuite();
	} catch (err) {
		if (!found) throw err;
	} finally {
		Registry.prototype.parseConfig = original;
	}
	return found;
}
