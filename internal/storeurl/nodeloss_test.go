//go:build unix

package storeurl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// Variables by which TestNodeLoss tells a process that it is a host, and of what.
const (
	hostURL    = "GREENROOM_TEST_HOST_URL"
	hostActors = "GREENROOM_TEST_HOST_ACTORS"
)

// A write is the number n, either as a row of the actor's database or as one of its
// keys.
type write struct {
	actor string
	n     int
}

func (w write) sql() bool { return w.n%2 == 0 }

func (w write) key() []byte { return fmt.Appendf(nil, "%08d", w.n) }

// do makes the write.
func (w write) do(ctx context.Context, a *actorstore.Actor, db *vfs.DB) error {
	if w.sql() {
		_, err := db.ExecContext(ctx, "insert into t(n) values(?)", w.n)
		return err
	}
	return a.User().Put(ctx, w.key(), []byte("x"))
}

// done reports whether the write is there.
func (w write) done(ctx context.Context, a *actorstore.Actor, db *vfs.DB) (bool, error) {
	if w.sql() {
		n := 0
		err := db.QueryRowContext(ctx, "select count(*) from t where n = ?", w.n).Scan(&n)
		return n == 1, err
	}
	_, err := a.Get(ctx, actorstore.UserKey(w.key()), nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// openBoth opens an actor and its database, waiting until no other host has it.
func openBoth(ctx context.Context, s *actorstore.Store, name string) (*actorstore.Actor, *vfs.DB, error) {
	a, err := s.Named(ctx, name, &actorstore.ActorOptions{Wait: true})
	if err != nil {
		return nil, nil, err
	}
	db, err := vfs.Open(ctx, a, nil)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	if _, err := db.ExecContext(ctx, "create table if not exists t(n integer primary key)"); err != nil {
		return nil, nil, errors.Join(err, db.Close(), a.Close())
	}
	return a, db, nil
}

// TestNodeLossHost is a host of TestNodeLoss, in a process of its own. It writes to its
// actors until its input ends, and says what became of each write:
//
//	open ACTOR EPOCH, or shut ACTOR 0
//	try ACTOR N, then acked ACTOR N; or failed ACTOR N, then applied or missing ACTOR N
//	fenced ACTOR
func TestNodeLossHost(t *testing.T) {
	url := os.Getenv(hostURL)
	if url == "" {
		t.Skip("only as a process of TestNodeLoss")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	eng, err := pgkv.Open(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	s, err := actorstore.Open(ctx, eng, &actorstore.Options{Host: actorstore.HostOptions{TTL: nodeLossTTL}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var wg sync.WaitGroup
	for name := range strings.SplitSeq(os.Getenv(hostActors), ",") {
		wg.Go(func() {
			w := write{actor: name}
			for ctx.Err() == nil {
				if err := writeOn(ctx, s, &w, say); errors.Is(err, actorstore.ErrFenced) {
					say("fenced %s", name)
					return
				}
			}
		})
	}
	wg.Wait()
}

// writePause is how long a host waits between two writes of an actor. Without it the actors
// have ten times as many rows to read back, and the hosts keep the servers busy while the
// test waits for a failover.
const writePause = 5 * time.Millisecond

// writeOn opens the actor, finds out what became of the write that failed, if any, and
// goes on until one fails. w is the one that was tried last.
func writeOn(ctx context.Context, s *actorstore.Store, w *write, say func(string, ...any)) (err error) {
	failed := w.n
	a, db, err := openBoth(ctx, s, w.actor)
	if err != nil {
		say("shut %s 0 %v", w.actor, err) // no server, most likely; the next try may find one
		<-time.After(writePause)
		return nil
	}
	defer func() {
		if a.Err() != nil {
			err = a.Err()
		}
		db.Close() // a handle that failed says so again
		a.Close()
	}()
	epoch, err := epochOf(ctx, s, a)
	if err != nil {
		return nil
	}
	say("open %s %d", w.actor, epoch)
	if failed > 0 {
		done, err := w.done(ctx, a, db)
		if err != nil {
			return nil
		}
		say("%s %s %d", map[bool]string{true: "applied", false: "missing"}[done], w.actor, w.n)
	}
	pace := time.NewTicker(writePause)
	defer pace.Stop()
	for {
		w.n++
		say("try %s %d", w.actor, w.n)
		if err := w.do(ctx, a, db); err != nil {
			say("failed %s %d %v", w.actor, w.n, err)
			return nil
		}
		say("acked %s %d", w.actor, w.n)
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}

// nodeLossTTL is the leases' in TestNodeLoss.
const nodeLossTTL = 2 * time.Second

// A hostProcess is a host with what it has said.
type hostProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	actors []string

	mu     sync.Mutex
	said   map[string]map[int]string // of each actor: what is known of each write
	last   map[string]int            // the acked ones' number
	top    map[string]int            // of the actors that were taken: the newest write that is there
	epochs map[string]int
	back   []string // actors opened with an epoch that isn't later than the one before
	fenced map[string]bool
	shut   string // the last actor that could not be opened, and why
	failed int
	doubts int           // of these, how many were in doubt for the writer
	news   chan struct{} // has room for one message

	heard chan struct{} // closed when it says no more
}

// startHost starts a process of this test binary.
func startHost(t *testing.T, url string, actors ...string) *hostProcess {
	t.Helper()
	h := &hostProcess{
		actors: actors, said: map[string]map[int]string{}, last: map[string]int{}, top: map[string]int{}, epochs: map[string]int{},
		fenced: map[string]bool{}, news: make(chan struct{}, 1), heard: make(chan struct{}),
	}
	h.cmd = exec.Command(os.Args[0], "-test.run=^TestNodeLossHost$", "-test.timeout=30m")
	h.cmd.Env = append(os.Environ(), hostURL+"="+url, hostActors+"="+strings.Join(actors, ","))
	h.cmd.Stderr = os.Stderr
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.stdin = stdin
	go func() {
		defer close(h.heard)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			h.hear(lines.Text())
		}
	}()
	t.Cleanup(func() {
		h.cmd.Process.Kill() // it has ended, unless the test failed
		<-h.heard
		h.cmd.Wait()
	})
	return h
}

// hear takes a line.
func (h *hostProcess) hear(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := strings.Fields(line)
	if len(f) < 2 {
		return
	}
	n := 0
	if len(f) > 2 {
		if _, err := fmt.Sscan(f[2], &n); err != nil {
			return
		}
	}
	actor := f[1]
	if h.said[actor] == nil {
		h.said[actor] = map[int]string{}
	}
	switch f[0] {
	case "open":
		if n <= h.epochs[actor] {
			h.back = append(h.back, line)
		}
		h.epochs[actor] = n
	case "fenced":
		h.fenced[actor] = true
	case "shut":
		h.shut = line
	case "try", "acked", "applied", "missing", "failed":
		h.said[actor][n] = f[0]
		if f[0] == "acked" {
			h.last[actor]++
		}
		if f[0] == "failed" {
			h.failed++
			if strings.Contains(line, kv.ErrUnknownOutcome.Error()) {
				h.doubts++
			}
		}
	}
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// await waits until ok holds of what the host has said.
func (h *hostProcess) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	patience := testkit.Patience(30 * time.Second)
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		done := ok()
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-h.news:
		case <-deadline:
			h.cmd.Process.Signal(syscall.SIGQUIT) // it says what its goroutines wait for
			h.cmd.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("%v: after %v not so: %s; fenced are %v; %s", h.actors, patience, what, h.fenced, h.shut)
		}
	}
}

// progress waits until more writes of each actor were acknowledged.
func (h *hostProcess) progress(t *testing.T, more int) {
	t.Helper()
	h.mu.Lock()
	from := map[string]int{}
	for _, a := range h.actors {
		from[a] = h.last[a]
	}
	h.mu.Unlock()
	h.await(t, "more writes are acknowledged", func() bool {
		for _, a := range h.actors {
			if h.last[a] < from[a]+more {
				return false
			}
		}
		return true
	})
}

// TestNodeLoss: three servers, of which a commit waits for two, and two hosts with
// actors under load. The primary is killed, and another one takes over; then a host
// stops, its actors are opened elsewhere, and it goes on. What was acknowledged is
// there, what was in doubt is resolved, and the host that was replaced writes nothing.
// Two writes are in doubt for sure: of one the COMMIT was lost, of the other its answer.
func TestNodeLoss(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts three servers and two processes")
	}
	t.Parallel()
	cluster := pgtest.StartCluster(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Primary().SQL(t, "SELECT pid, backend_type, state, wait_event, query FROM pg_stat_activity"))
			t.Log(cluster.Primary().SQL(t, "SELECT application_name, state, sync_state, sent_lsn, flush_lsn FROM pg_stat_replication"))
		}
	})
	// One host settles what is in doubt by itself, the other one leaves it to its actors.
	patient := startHost(t, cluster.URL(""), "a", "b")
	hasty := startHost(t, cluster.URL("retry=0s"), "c", "d")
	hosts := []*hostProcess{patient, hasty}
	for _, h := range hosts {
		h.progress(t, 50)
	}
	doubtfuls := []*doubtful{
		newDoubtful(t, cluster, write{"e", 3}, true), newDoubtful(t, cluster, write{"f", 4}, false),
	}
	for _, d := range doubtfuls {
		d.send(t, cluster)
	}
	cluster.Primary().Kill(t)
	cluster.Failover(t)
	for _, d := range doubtfuls {
		d.settle(t)
	}
	for _, h := range hosts {
		h.progress(t, 50)
	}

	if err := patient.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s := open(t, cluster.URL(""), greenroom.Options{MustExist: true})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range patient.actors {
		taken(t, s, name, patient)
	}
	for _, d := range doubtfuls {
		d.moves(t, s)
	}
	if err := patient.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	patient.await(t, "it is told that others have its actors", func() bool {
		return patient.fenced["a"] && patient.fenced["b"]
	})
	for _, h := range hosts {
		if err := h.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		<-h.heard // Wait would cut off its unread output
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("host of %v: %v", h.actors, err)
		}
		for _, name := range h.actors {
			compare(t, s, name, h)
		}
		if len(h.back) > 0 {
			t.Errorf("host of %v: opened with an epoch that isn't later: %q", h.actors, h.back)
		}
	}
	t.Logf("%d and %d writes failed, %d and %d of them in doubt", patient.failed, hasty.failed, patient.doubts, hasty.doubts)
	if hasty.failed == 0 {
		t.Error("no write failed on the host that doesn't try again")
	}
}

// taken opens an actor of a host that has stopped, and writes to it.
func taken(t *testing.T, s *Store, name string, h *hostProcess) {
	t.Helper()
	a, db, err := openBoth(t.Context(), s.Lower(), name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range landed(t, a, db) {
		h.top[name] = max(h.top[name], n)
	}
	if err := a.User().Put(t.Context(), []byte("taken"), []byte("over")); err != nil {
		t.Error(err)
	}
	h.mu.Lock()
	before := h.epochs[name]
	h.mu.Unlock()
	later(t, s, a, before)
	if err := errors.Join(db.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// landed returns the numbers of the writes that are there.
func landed(t *testing.T, a *actorstore.Actor, db *vfs.DB) map[int]bool {
	t.Helper()
	there := map[int]bool{}
	rows, err := db.QueryContext(t.Context(), "select n from t")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		there[n] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for e, err := range a.User().List(t.Context(), actorstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(e.Key), "%08d", &n); err == nil { // else it is the key of taken
			there[n] = true
		}
	}
	return there
}

// compare holds what is in an actor against what its host has said.
func compare(t *testing.T, s *Store, name string, h *hostProcess) {
	t.Helper()
	a, db, err := openBoth(t.Context(), s.Lower(), name)
	if err != nil {
		t.Fatal(err)
	}
	later(t, s, a, h.epochs[name])
	count := map[string]int{}
	there := landed(t, a, db)
	for n, said := range h.said[name] {
		done := there[n]
		count[said]++
		if (said == "acked" || said == "applied") && !done {
			t.Errorf("%s: write %d was %s, and is not there", name, n, said)
		}
		if said == "missing" && done {
			t.Errorf("%s: write %d was missing, and is there now", name, n)
		}
		if top, taken := h.top[name]; taken && n > top && (done || said == "acked" || said == "applied") {
			t.Errorf("%s: write %d (%s, there: %v) came after another host had taken over, at %d", name, n, said, done, top)
		}
	}
	for n := range there {
		if h.said[name][n] == "" {
			t.Errorf("%s has write %d, which its host has never tried", name, n)
		}
	}
	var ok string
	if err := db.QueryRowContext(t.Context(), "pragma integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("%s: integrity_check: %s, %v", name, ok, err)
	}
	// At most the last write of a host is neither known to be there nor not to be.
	if open := count["try"] + count["failed"]; open > 1 {
		t.Errorf("%s: of %d writes it is not known what became of them", name, open)
	}
	t.Logf("%s: %v", name, count)
	if err := errors.Join(db.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}
