// A program of actors for bench, of RivetKit 2.2 and 2.3: it goes to where RIVET_ENDPOINT says, else to what SETUP, JSON for RivetKit's setup, says.
import { actor, setup } from "rivetkit";
import { db } from "rivetkit/db";

const bench = actor({
	db: db({ onMigrate: async (d) => void (await d.execute("create table if not exists t(id integer primary key, data text not null)")) }),
	actions: {
		insert: async (c, data) => {
			await c.db.execute("insert into t(data) values(?)", data);
			return Number((await c.db.execute("select max(id) as n from t"))[0].n);
		},
		nothing: () => 1,
	},
});
await setup({ use: { bench }, noWelcome: true, ...JSON.parse(process.env.SETUP ?? "{}") }).start();
