// A program of RivetKit 2.3 whose actors have a database through drizzle. With GREENROOM_MIGRATIONS=2 it has one more migration.
import { eq, relations, sql } from "drizzle-orm";
import { actor, setup } from "rivetkit";
import { db, integer, sqliteTable, text } from "rivetkit/db/drizzle";

const newer = process.env.GREENROOM_MIGRATIONS === "2";
const account = sqliteTable("account", {
	id: integer("id").primaryKey({ autoIncrement: true }),
	name: text("name").notNull().unique(),
	cents: integer("cents").notNull(),
	tags: text("tags", { mode: "json" }),
	since: integer("since", { mode: "timestamp_ms" }),
	...(newer ? { note: text("note").notNull().default("none") } : {}),
});
const entry = sqliteTable("entry", {
	id: integer("id").primaryKey({ autoIncrement: true }),
	of: integer("of").notNull().references(() => account.id),
	cents: integer("cents").notNull(),
});
const schema = {
	account, entry,
	accountEntries: relations(account, ({ many }) => ({ entries: many(entry) })),
	entryAccount: relations(entry, ({ one }) => ({ account: one(account, { fields: [entry.of], references: [account.id] }) })),
};
// As drizzle-kit writes them.
const steps = [
	[
		"CREATE TABLE `account` (\n\t`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,\n\t`name` text NOT NULL,\n\t`cents` integer NOT NULL,\n\t`tags` text,\n\t`since` integer\n);\n",
		"CREATE UNIQUE INDEX `account_name_unique` ON `account` (`name`);",
		"CREATE TABLE `entry` (\n\t`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,\n\t`of` integer NOT NULL,\n\t`cents` integer NOT NULL,\n\tFOREIGN KEY (`of`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action\n);\n",
	],
	["ALTER TABLE `account` ADD `note` text DEFAULT 'none' NOT NULL;", "UPDATE `account` SET `note` = 'moved' WHERE `id` = 1;"],
].slice(0, newer ? 2 : 1);
const migrations = {
	journal: { version: "7", dialect: "sqlite", entries: steps.map((_, idx) => ({ idx, version: "6", when: 1700000000000 + idx, tag: `000${idx}_step`, breakpoints: true })) },
	migrations: Object.fromEntries(steps.map((s, idx) => [`m000${idx}`, s.join("--> statement-breakpoint\n")])),
};
const bank = actor({
	state: {},
	db: db({ schema, migrations }),
	actions: {
		open: async (c, name, cents, more) => (await c.db.insert(account).values({ name, cents, since: new Date(1700000000000), ...more }).returning())[0],
		all: (c) => c.db.select().from(account).orderBy(account.id),
		// What both have then, or an error: it takes back what the transaction did.
		move: async (c, from, to, cents) => {
			await c.db.transaction(async (tx) => {
				for (const [name, n] of [[from, -cents], [to, cents]]) {
					const [a] = await tx.update(account).set({ cents: sql`${account.cents} + ${n}` }).where(eq(account.name, name)).returning();
					if (!a || a.cents < 0) throw new Error("no such account, or too little in it");
					await tx.insert(entry).values({ of: a.id, cents: n });
				}
			});
			return (await c.db.select({ cents: account.cents }).from(account).orderBy(account.id)).map((a) => a.cents);
		},
		entries: (c, name) => c.db.query.account.findFirst({ where: eq(account.name, name), columns: { name: true }, with: { entries: { columns: { cents: true } } } }),
		// Many rows in one transaction: the sum of all entries.
		many: async (c, n) => {
			await c.db.transaction(async (tx) => {
				for (let i = 0; i < n; i += 100) await tx.insert(entry).values(Array.from({ length: 100 }, () => ({ of: 1, cents: 1 })));
			});
			return (await c.db.select({ n: sql`count(*)`, cents: sql`sum(${entry.cents})` }).from(entry))[0];
		},
		close: (c, name) => c.db.delete(account).where(eq(account.name, name)).returning({ name: account.name }),
		migrated: async (c) => (await c.db.execute("select count(*) n, max(created_at) last from __drizzle_migrations"))[0],
		check: async (c) => (await c.db.execute("pragma integrity_check"))[0].integrity_check,
		sleep: (c) => c.sleep(),
	},
});
setup({ use: { bank } }).start();
