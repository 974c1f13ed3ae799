package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// envoyVersions are those of RivetKit 2.3 whose programs run.
var envoyVersions = []string{"2.3.19", "2.3.11"}

// A play is an engine, a program and a client, each in a process of its own.
type play struct {
	*suite
	*testing.T
	store, listen string
	engine        *served
	program       *exec.Cmd
	said          strings.Builder // by the program, on standard error
	client        io.Writer
	answers       *bufio.Scanner
}

// play starts an engine with a program, and a client of a version with an encoding.
func (s *suite) play(t *testing.T, program, encoding string) *play {
	t.Helper()
	p := &play{suite: s, T: t, store: t.TempDir() + "/store", listen: ownPort}
	p.serves()
	t.Cleanup(func() { p.engine.kill() })
	p.runs(program)
	t.Cleanup(func() {
		p.ends(os.Kill)
		if t.Failed() {
			t.Logf("the engine: %s\nthe program: %s", &p.engine.stderr, &p.said)
		}
	})
	cmd := s.script(t, "console.mjs", p.engine.url, "GREENROOM_ENCODING="+encoding, "RIVET_LOG_LEVEL=silent", "LOG_LEVEL=silent")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	p.client, p.answers = in, bufio.NewScanner(out)
	return p
}

// script returns the command that runs a script of the suite with an engine. A program of 2.3 has no runner, and starts no services unless env says so.
func (s *suite) script(t *testing.T, name, engine string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), s.node, name)
	cmd.Dir = s.folder
	cmd.Env = append(append(os.Environ(), "RIVET_ENDPOINT="+engine, "RIVET_RUN_SERVICES=0"), env...)
	if slices.Contains(versions, s.version) {
		cmd.Env = append(cmd.Env, "GREENROOM_RUNNER=1")
	}
	return cmd
}

// serves starts the engine, at the address that it had before.
func (p *play) serves() {
	p.Helper()
	var err error
	p.engine, err = p.serve(p.store, p.listen)
	must(p.T, err)
	p.listen = strings.TrimPrefix(p.engine.url, "http://")
}

// runs starts a program.
func (p *play) runs(name string, env ...string) {
	p.Helper()
	p.program = p.script(p.T, name, p.engine.url, append(env, "RIVET_LOG_LEVEL=warn")...)
	p.program.Stderr, p.program.Stdout = &p.said, &p.said
	must(p.T, p.program.Start())
}

// ends ends the program.
func (p *play) ends(by os.Signal) {
	_ = p.program.Process.Signal(by)
	_ = p.program.Wait() // by a signal, it may be
}

// crash kills the engine, and starts it again.
func (p *play) crash() {
	p.Helper()
	p.engine.kill()
	p.serves()
}

// ask has the client evaluate an expression, and returns the value.
func (p *play) ask(expression string) string {
	p.Helper()
	late := time.AfterFunc(testkit.Patience(time.Second), func() { _ = p.program.Process.Kill() })
	defer late.Stop()
	_, err := io.WriteString(p.client, expression+"\n")
	must(p.T, err)
	for p.answers.Scan() {
		if answer, ok := strings.CutPrefix(p.answers.Text(), "> "); ok {
			return answer
		}
	}
	p.Fatalf("%s: the client has ended: %v", expression, p.answers.Err())
	return ""
}

// gives is ask, which must give a value.
func (p *play) gives(expression, want string) {
	p.Helper()
	if got := p.ask(expression); got != want {
		p.Errorf("%s: %s, not %s", expression, got, want)
	}
}

// stored ends the program and the engine, and returns what commands say of the store.
func (p *play) stored(args ...string) string {
	p.Helper()
	out, err := exec.Command(p.suite.program, args...).CombinedOutput()
	if err != nil {
		p.Errorf("%q: %v", args, err)
	}
	return string(out)
}

// TestEnvoys runs a program of RivetKit 2.3 and a client of it, and ends the engine and the program between and during what they do.
func TestEnvoys(t *testing.T) {
	for _, version := range envoyVersions {
		t.Run(version, func(t *testing.T) {
			s := newSuite(t, version)
			for _, encoding := range encodings {
				t.Run(encoding, func(t *testing.T) {
					t.Parallel()
					p := s.play(t, "envoy.mjs", encoding)
					p.everything()
					p.crashes()
					p.atRest()
				})
			}
		})
	}
}

// everything uses all that actors have.
func (p *play) everything() {
	p.Helper()
	const room, ledger = `c.room.getOrCreate(["a"])`, `c.ledger.getOrCreate(["a"])`
	for _, line := range [][2]string{
		{`c.room.getOrCreate(["a"], { createWithInput: { start: 5 } }).get()`, `5`},
		{room + `.add(3)`, `8`},
		{room + `.fail()`, `error rivetkit.internal_error`},
		{room + `.keep("key", "value")`, `"value"`},
		{room + `.fetch("hello?x=1", { method: "POST", body: "body" }).then(async (r) => [r.status, await r.text(), r.headers.get("x-a")])`, `[201,"raw /hello","b"]`},
		{`{ kept.events = []; kept.conn = c.room.getOrCreate(["a"], { params: { name: "me" } }).connect(); kept.conn.on("n", (v) => kept.events.push(v)); return kept.conn.add(10); }`, `18`},
		{`kept.conn.later(1500)`, `undefined`},
		{`wait(2500).then(() => kept.events)`, `[18,118]`},
		{`wait(6000).then(() => kept.conn.add(1))`, `119`}, // it has slept
		{room + `.sleep()`, `undefined`},
		{`wait(2500).then(() => kept.conn.add(2))`, `121`}, // over a socket that has outlived the sleep
		{`wait(500).then(() => kept.events)`, `[18,118,119,121]`},
		{room + `.sleep()`, `undefined`},
		{`wait(2000).then(() => kept.conn.dispose())`, `undefined`}, // it leaves in sleep
		{room + `.get()`, `121`},
		{room + `.kept("key")`, `"value"`},
		{ledger + `.put(20)`, `20`},
		{ledger + `.many(400, 2000)`, `{"n":420,"s":800050}`},
		{ledger + `.bad()`, `error core.internal_error`},
		{ledger + `.shrink()`, `{"n":5,"s":10}`},
		{ledger + `.fetch("up", { method: "POST", body: "z".repeat(300000) }).then((r) => r.text())`, `"300000"`},
		{ledger + `.sleep()`, `undefined`},
		{`wait(1500).then(() => ` + ledger + `.totals())`, `{"n":5,"s":10}`},
		{ledger + `.n()`, `20`},
		{`c.worker.getOrCreate(["a"]).send("jobs", { n: 1 })`, `undefined`},
		{`c.worker.getOrCreate(["a"]).send("jobs", { n: 2 })`, `undefined`},
		{`wait(500).then(() => c.worker.getOrCreate(["a"]).done())`, `[{"n":1},{"n":2}]`},
		{`c.flow.getOrCreate(["a"]).log()`, `[]`},
		{`wait(1500).then(() => c.flow.getOrCreate(["a"]).log())`, `[42]`},
		{`c.room.getOrCreate(["x"]).destroy()`, `undefined`},
		{`wait(500).then(() => c.room.get(["x"]).get())`, `error actor.not_found`},
	} {
		p.gives(line[0], line[1])
	}
}

// crashes ends the engine and the program, before a request and during one.
func (p *play) crashes() {
	p.Helper()
	const room, ledger = `c.room.getOrCreate(["a"])`, `c.ledger.getOrCreate(["big"])`
	const connected = `{ kept.conn = ` + room + `.connect(); return kept.conn.add(1); }`
	p.gives(connected, `122`)
	p.gives(`wait(2000)`, `undefined`) // what an actor answers is saved some time later
	p.crash()
	p.gives(connected, `123`) // the client doesn't try again when nothing listens
	p.gives(`c.ledger.getOrCreate(["a"]).totals()`, `{"n":5,"s":10}`)
	p.gives(`c.worker.getOrCreate(["a"]).done()`, `[{"n":1},{"n":2}]`)
	p.gives(`wait(2000)`, `undefined`)
	p.ends(os.Kill)
	p.runs("envoy.mjs")
	p.gives(room+`.add(1)`, `124`)
	p.gives(`c.flow.getOrCreate(["a"]).log()`, `[42]`)
	p.ends(syscall.SIGTERM)
	p.runs("envoy.mjs")
	p.gives(room+`.get()`, `124`)
	if p.version == "2.3.11" { // it has no commits in parts
		p.gives(ledger+`.put(10)`, `10`)
		return
	}
	before := 0
	p.gives(ledger+`.many(2000, 2000)`, `{"n":2000,"s":4000000}`)
	for i := range 4 { // the program waits twice as long each time before it connects again
		n := before + 2000*(i+1)
		p.gives(fmt.Sprintf(`void (kept.many = %s.many(2000, 2000).catch((e) => "failed"))`, ledger), `undefined`)
		p.gives(fmt.Sprintf(`wait(%d)`, 60*i), `undefined`)
		p.crash()
		done := p.ask(`kept.many`)
		with, without := fmt.Sprintf(`{"n":%d,"s":%d}`, n+2000, (n+2000)*2000), fmt.Sprintf(`{"n":%d,"s":%d}`, n, n*2000)
		got := p.ask(ledger + `.totals()`)
		for tries := 0; got != with && got != without && tries < 20; tries++ { // the program has lived on, and may be within its transaction still, on the connection that counts
			p.gives(`wait(500)`, `undefined`)
			got = p.ask(ledger + `.totals()`)
		}
		if got != with && (got != without || done == with) {
			p.Errorf("%s behind %s, which has given %s", got, without, done)
		}
		p.Logf("after %d ms: %s, and then %s", 60*i, done, got)
		if p.gives(ledger+`.check()`, `"ok"`); got == without {
			before -= 2000
		}
	}
}

// atRest looks at what is stored, when the program and the engine have ended.
func (p *play) atRest() {
	p.Helper()
	p.ends(syscall.SIGTERM)
	p.engine.end(syscall.SIGTERM)
	p.stored("check", p.store)
	for _, line := range [][2]string{
		{"ledger/a", "5"},
		{"ledger/big", ""},
	} {
		if got := p.stored("sql", p.store, line[0], "pragma integrity_check"); !strings.Contains(got, "ok") {
			p.Errorf("%s: %s", line[0], got)
		}
		if got := p.stored("sql", p.store, line[0], "select count(*) from t"); !strings.Contains(got, line[1]) {
			p.Errorf("%s: %s", line[0], got)
		}
	}
}

// TestServices: a program of 2.3.19 that starts RivetKit's services serves its actors as others do, and ends the services when it is asked to end.
func TestServices(t *testing.T) {
	p := newSuite(t, envoyVersions[0]).play(t, "envoy.mjs", "bare")
	p.ends(os.Kill)
	t.Cleanup(func() { p.ends(syscall.SIGTERM) }) // the services outlive a program that is killed
	const services = `fetch(process.env.RIVET_ENDPOINT + "/envoys?namespace=default&name=services").then((r) => r.json()).then((r) => r.envoys.length)`
	p.gives(services, `0`)
	p.runs("envoy.mjs", "RIVET_RUN_SERVICES=1")
	p.gives(`c.room.getOrCreate(["a"]).add(3)`, `3`)
	p.gives(services, `1`)
	p.ends(syscall.SIGTERM)
	p.gives(`{ for (let i = 0; i < 50 && await `+services+`; i++) await wait(100); return `+services+`; }`, `0`)
}

// TestMoved: actors that a program of RivetKit 2.2 has begun go on with one of 2.3: it finds all that they had.
func TestMoved(t *testing.T) {
	for _, version := range envoyVersions {
		t.Run(version, func(t *testing.T) {
			old, s := newSuite(t, "2.2.1"), newSuite(t, version)
			p := s.play(t, "moved.mjs", "cbor")
			p.ends(os.Kill)
			p.suite = old
			p.runs("moved.mjs")
			p.suite = s
			const room, ledger, order = `c.room.getOrCreate(["golden", "a/b"])`, `c.ledger.getOrCreate(["books"])`, `c.order.getOrCreate(["o1"])`
			for _, line := range [][2]string{
				{`c.room.getOrCreate(["golden", "a/b"], { createWithInput: { title: "Gölden" } }).bump()`, `1`},
				{room + `.put()`, `undefined`},
				{room + `.plan()`, `undefined`},
				{room + `.send("jobs", { n: 1 })`, `undefined`},
				{room + `.send("later", "third")`, `undefined`},
				{ledger + `.fill()`, `{"n":200,"s":29850}`},
				{order + `.priced().then(() => wait(1000)).then(() => ` + order + `.priced())`, `1`},
				{`wait(1000).then(() => Promise.all([` + room + `.nap(), ` + ledger + `.nap(), ` + order + `.nap()]))`, `[null,null,null]`},
				{`wait(1500)`, `undefined`},
			} {
				p.gives(line[0], line[1])
			}
			p.ends(syscall.SIGTERM)
			p.runs("moved.mjs")
			for _, line := range [][2]string{
				// With cbor and json RivetKit 2.3 answers null in the place of a bigint, or of what has one.
				{`createClient({ endpoint: process.env.RIVET_ENDPOINT, encoding: "bare", disableMetadataLookup: true }).room.getOrCreate(["golden", "a/b"]).all()`, `{"title":"Gölden","n":1,"big":"12345678901234567890n","when":"2023-11-14T22:13:20.000Z"}`},
				{room + `.got()`, `["hello","y"]`},
				{room + `.drain()`, `[["jobs",{"n":1}],["later","third"]]`},
				{room + `.bump()`, `2`},
				{ledger + `.sums()`, `{"n":200,"s":29850}`},
				{ledger + `.add()`, `undefined`},
				{ledger + `.sums()`, `{"n":201,"s":29851}`},
				{order + `.priced()`, `0`},
				{order + `.send("paid", { cents: 1250 })`, `undefined`},
				{`wait(1000).then(() => ` + order + `.log())`, `[[1250,1,{"cents":1250}]]`},
			} {
				p.gives(line[0], line[1])
			}
			p.ends(syscall.SIGTERM)
			p.engine.end(syscall.SIGTERM)
			p.stored("check", p.store)
			if got := p.stored("sql", p.store, "ledger/books", "select count(*), sum(amount) from entry"); !strings.Contains(got, "201") || !strings.Contains(got, "29851") {
				t.Error(got)
			}
		})
	}
}
