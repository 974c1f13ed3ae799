package engine_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDrizzle runs a program of RivetKit 2.3 whose database is drizzle's, and ends the engine and the program between and during what they do. Its
// next start has one more migration. On RivetKit's own engine it answers the same.
func TestDrizzle(t *testing.T) {
	for _, version := range envoyVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := newSuite(t, version).play(t, "drizzle.mjs", "bare")
			p.drizzles()
			p.drizzleCrashes()
			p.ends(syscall.SIGTERM)
			p.engine.end(syscall.SIGTERM)
			p.stored("check", p.store)
			for _, line := range [][2]string{
				{"pragma integrity_check", "ok"},
				{"select name || cents || note from account", "ann60moved\nbob90none\neve10new\n"},
				{"select count(*) from __drizzle_migrations", "2\n"},
			} {
				if got := p.stored("sql", p.store, "bank/a", line[0]); !strings.Contains(got, line[1]) {
					t.Errorf("%s: %s", line[0], got)
				}
			}
		})
	}
}

const bank = `c.bank.getOrCreate(["a"])`

// drizzles uses what drizzle has: migrations, inserts, selects, relations and transactions.
func (p *play) drizzles() {
	p.Helper()
	const since = `"since":"2023-11-14T22:13:20.000Z"`
	all := fmt.Sprintf(`[{"id":1,"name":"ann","cents":70,"tags":["x",{"y":1}],%s},{"id":2,"name":"bob","cents":80,"tags":null,%[1]s}]`, since)
	for _, line := range [][2]string{
		{bank + `.open("ann", 100, { tags: ["x", { y: 1 }] })`, `{"id":1,"name":"ann","cents":100,"tags":["x",{"y":1}],` + since + `}`},
		{bank + `.open("bob", 50)`, `{"id":2,"name":"bob","cents":50,"tags":null,` + since + `}`},
		{bank + `.open("bob", 1)`, `error rivetkit.internal_error`},
		{bank + `.move("ann", "bob", 30)`, `[70,80]`},
		{bank + `.move("ann", "bob", 300)`, `error rivetkit.internal_error`}, // it is rolled back
		{bank + `.move("ann", "eve", 30)`, `error rivetkit.internal_error`},  // behind a write
		{bank + `.all()`, all},
		{bank + `.entries("ann")`, `{"name":"ann","entries":[{"cents":-30}]}`},
		{bank + `.close("bob")`, `error rivetkit.internal_error`}, // it has entries
		{bank + `.many(2000)`, `{"n":2002,"cents":2000}`},
		{bank + `.migrated()`, `{"n":1,"last":1700000000000}`},
		{bank + `.sleep()`, `undefined`},
		{`wait(1500).then(() => ` + bank + `.all())`, all},
		{bank + `.migrated()`, `{"n":1,"last":1700000000000}`},
		{bank + `.check()`, `"ok"`},
	} {
		p.gives(line[0], line[1])
	}
}

// drizzleCrashes ends the engine before and during a transaction, and then the program, whose next start has one more migration.
func (p *play) drizzleCrashes() {
	p.Helper()
	p.crash()
	p.gives(bank+`.move("ann", "bob", 10)`, `[60,90]`)
	p.gives(`void (kept.many = `+bank+`.many(10000).catch((e) => "failed"))`, `undefined`)
	p.gives(`wait(30)`, `undefined`)
	p.crash()
	done := p.ask(`kept.many`)
	p.Logf("the transaction has given %s", done)
	const with, without = `{"n":12104,"cents":12100}`, `{"n":2104,"cents":2100}`
	if got := p.ask(bank + `.many(100)`); got != with && (got != without || done != `"failed"`) {
		p.Errorf("behind a transaction that has given %s: %s", done, got)
	}
	p.gives(bank+`.check()`, `"ok"`)
	p.ends(os.Kill)
	p.runs("drizzle.mjs", "GREENROOM_MIGRATIONS=2")
	for _, line := range [][2]string{
		{bank + `.migrated()`, `{"n":2,"last":1700000000001}`},
		{bank + `.open("eve", 10, { note: "new" })`, `{"id":3,"name":"eve","cents":10,"tags":null,"since":"2023-11-14T22:13:20.000Z","note":"new"}`},
		{bank + `.all().then((all) => all.map((a) => [a.name, a.cents, a.note]))`, `[["ann",60,"moved"],["bob",90,"none"],["eve",10,"new"]]`},
	} {
		p.gives(line[0], line[1])
	}
	p.crash()
	p.gives(bank+`.migrated()`, `{"n":2,"last":1700000000001}`)
	p.gives(`c.bank.getOrCreate(["new"]).open("zoe", 1)`, `{"id":1,"name":"zoe","cents":1,"tags":null,"since":"2023-11-14T22:13:20.000Z","note":"none"}`)
}
