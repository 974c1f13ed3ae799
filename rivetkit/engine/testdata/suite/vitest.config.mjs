import { defineConfig } from "vitest/config";

export default defineConfig({
	test: {
		include: ["*.test.mjs"],
		testTimeout: 30_000,
		hookTimeout: 60_000,
		pool: "forks",
		poolOptions: { forks: { singleFork: true, execArgv: ["--no-warnings"] } },
		fileParallelism: false,
		server: { deps: { external: [/node_modules/] } },
		dangerouslyIgnoreUnhandledErrors: true,
		env: { LOG_LEVEL: "silent", RIVET_LOG_LEVEL: "silent", NODE_ENV: "test" },
	},
});
