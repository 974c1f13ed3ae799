package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/admin"
	"github.com/greenroomdb/greenroom/internal/adminsock"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/queue"
)

// A logbook keeps what is logged.
type logbook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// A rig is a store that is served, and a client.
type rig struct {
	*testing.T
	dir    string
	store  *greenroom.Store
	server *admin.Server
	client *admin.Client
	log    logbook
}

func newRig(t *testing.T, opts admin.Options) *rig {
	t.Helper()
	r := &rig{T: t, dir: filepath.Join(t.TempDir(), "store")}
	var err error
	if r.store, err = greenroom.Open(t.Context(), r.dir, nil); err != nil {
		t.Fatal(err)
	}
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			_, err := tx.Exec("create table t(a); insert into t values (1)")
			return errors.Join(err, tx.Put([]byte("k"), []byte("v")))
		})
	})
	opts.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	if r.server, err = admin.Listen(t.Context(), r.dir, r.store, &opts); err != nil {
		t.Fatal(err)
	}
	if r.client, err = admin.Dial(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.client.Close()
		if err := errors.Join(r.server.Close(), r.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// actor runs fn with an actor of the program's.
func (r *rig) actor(name string, fn func(a *greenroom.Actor) error) {
	r.Helper()
	a, err := r.store.Actor(r.Context(), name, nil)
	if err == nil {
		err = errors.Join(fn(a), a.Close())
	}
	if err != nil {
		r.Fatal(err)
	}
}

// count returns how many rows t has.
func (r *rig) count() (n int) {
	r.Helper()
	err := r.store.View(r.Context(), "room", func(v *greenroom.View) error { return v.QueryRow("select count(*) from t").Scan(&n) })
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// quiet is a Sink that counts rows.
type quiet struct{ rows int }

func (*quiet) Begin([]string)      {}
func (q *quiet) Row([]sqlrun.Cell) { q.rows++ }
func (*quiet) End()                {}
func (*quiet) Changed(int64)       {}
func (*quiet) Flush() error        { return nil }

// TestVerbs: what is done to an actor is there, whether the program has it open or not, and is in the log.
func TestVerbs(t *testing.T) {
	r := newRig(t, admin.Options{})
	ctx := t.Context()
	both := func() {
		t.Helper()
		if _, err := admin.PutKey.Ask(ctx, r.client, "room", false, &admin.PutKeyIn{Key: "hex:6b32", Value: []byte("w")}); err != nil {
			t.Error(err)
		}
		out, err := admin.SendMessage.Ask(ctx, r.client, "room", false, &admin.SendMessageIn{Name: "note", Body: []byte(`{"a":1}`)})
		if err != nil || out.ID == 0 {
			t.Errorf("send: %+v, %v", out, err)
		}
	}
	both()
	r.actor("room", func(a *greenroom.Actor) error {
		both()
		return a.Update(ctx, func(tx *greenroom.Tx) error {
			n, err := tx.Messages()
			value, gerr := tx.Get([]byte("k2"))
			if n != 2 || string(value) != "w" {
				t.Errorf("the program sees %d messages, and the value %q", n, value)
			}
			return errors.Join(err, gerr)
		})
	})
	var ids []queue.ID
	err := r.store.View(ctx, "room", func(v *greenroom.View) error {
		for m, err := range v.Messages(nil) {
			if err != nil {
				return err
			}
			ids = append(ids, m.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := admin.DeleteMessages.Ask(ctx, r.client, "room", false, &admin.DeleteMessagesIn{IDs: append(ids, 99)})
	if err != nil || len(out.Deleted) != 2 {
		t.Errorf("delete: %+v, %v", out, err)
	}
	if _, err := admin.Fork.Ask(ctx, r.client, "room", &admin.ForkIn{To: "copy"}); err != nil {
		t.Error(err)
	}
	if _, err := admin.Fork.Ask(ctx, r.client, "room", &admin.ForkIn{To: "copy"}); err == nil || err.Error() != "there is an actor copy already" {
		t.Errorf("fork onto an actor: %v", err)
	}
	if _, err := admin.Drop.Ask(ctx, r.client, "copy", &admin.None{}); err != nil {
		t.Error(err)
	}
	if _, err := admin.Drop.Ask(ctx, r.client, "copy", &admin.None{}); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("drop of nothing: %v", err)
	}
	_, err = admin.PutKey.Ask(ctx, r.client, "new", false, &admin.PutKeyIn{Key: "k"})
	if !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("an actor that doesn't exist: %v", err)
	}
	if _, err = admin.PutKey.Ask(ctx, r.client, "new", true, &admin.PutKeyIn{Key: "k"}); err != nil {
		t.Errorf("an actor that is made: %v", err)
	}
	var e *admin.Error
	_, err = admin.PutKey.Ask(ctx, r.client, "room", false, &admin.PutKeyIn{Key: "hex:zz"})
	if !errors.As(err, &e) || e.Code != "invalid" {
		t.Errorf("a bad key: %v", err)
	}
	_, err = admin.CancelWorkflow.Ask(ctx, r.client, "room", false, &admin.None{})
	if !errors.Is(err, greenroom.ErrNotFound) || err.Error() != "the actor room has no workflow" {
		t.Errorf("no workflow: %v", err)
	}
	for _, want := range []string{"verb=fork actor=room", "verb=keys/put actor=new", "admin: done", "admin: failed"} {
		if !r.log.has(want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// TestSQL: statements of a shell run in the actor, a client that goes leaves nothing behind, and a transaction doesn't last.
func TestSQL(t *testing.T) {
	r := newRig(t, admin.Options{TxDeadline: 300 * time.Millisecond})
	ctx := t.Context()
	s := openSQL(t, r)
	if err := runSQL(t, s, "insert into t values (2)"); err != nil || s.InTransaction() || r.count() != 2 {
		t.Errorf("insert: %v, %d rows", err, r.count())
	}
	if err := errors.Join(runSQL(t, s, "begin"), runSQL(t, s, "insert into t values (3)")); err != nil || !s.InTransaction() {
		t.Errorf("begin: %v", err)
	}
	if err := errors.Join(s.Rollback()); err != nil || s.InTransaction() || r.count() != 2 {
		t.Errorf("rollback: %v, %d rows", err, r.count())
	}
	// The client goes in the middle of a transaction: the program writes.
	if err := errors.Join(runSQL(t, s, "begin immediate; insert into t values (4)"), s.Close()); err != nil {
		t.Error(err)
	}
	insert := func(a *greenroom.Actor) error {
		return a.Update(ctx, func(tx *greenroom.Tx) error { _, err := tx.Exec("insert into t values (5)"); return err })
	}
	r.actor("room", insert)
	if n := r.count(); n != 3 {
		t.Errorf("%d rows", n)
	}
	// It stays, and is too late.
	s = openSQL(t, r)
	defer s.Close()
	if err := runSQL(t, s, "begin immediate; insert into t values (6)"); err != nil {
		t.Error(err)
	}
	r.actor("room", insert) // which waits
	if err := runSQL(t, s, "commit"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a COMMIT that is late: %v", err)
	}
	if s.InTransaction() || r.count() != 4 {
		t.Errorf("after it there are %d rows", r.count())
	}
	var at *sqlrun.Error
	if err := runSQL(t, s, "attach 'file:x?vfs=os' as x"); err == nil || !strings.Contains(err.Error(), "greenroom export") {
		t.Errorf("attach: %v", err)
	}
	if err := runSQL(t, s, "selec"); !errors.As(err, &at) || at.Offset != 0 {
		t.Errorf("an error: %v", err)
	}
	nobody, err := r.client.SQL(ctx, "nobody", false)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if err := runSQL(t, nobody, "select 1"); !errors.Is(err, greenroom.ErrNotFound) {
		t.Errorf("an actor that doesn't exist: %v", err)
	}
}

// openSQL begins a session of SQL with the actor room.
func openSQL(t testing.TB, r *rig) *admin.SQL {
	t.Helper()
	s, err := r.client.SQL(t.Context(), "room", false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runSQL(t testing.TB, s *admin.SQL, text string) error {
	_, err := s.Run(t.Context(), text, &quiet{})
	return err
}

// TestSQLInterrupted: a statement without end is interrupted, by its client, and by the end of its client.
func TestSQLInterrupted(t *testing.T) {
	r := newRig(t, admin.Options{})
	ctx := t.Context()
	s := openSQL(t, r)
	defer s.Close()
	endless := "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c"
	ended, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	var at *sqlrun.Error
	if _, err := s.Run(ended, endless, &quiet{}); !errors.As(err, &at) || at.Err.Error() != "interrupted" {
		t.Errorf("a statement without end: %v", err)
	}
	// One that is interrupted before it has begun isn't begun, or ends at once.
	cancel()
	for range 20 {
		if _, err := s.Run(ended, endless, &quiet{}); !errors.As(err, &at) || at.Err.Error() != "interrupted" {
			t.Fatalf("a statement that was interrupted at once: %v", err)
		}
	}
	if err := runSQL(t, s, "select 1"); err != nil {
		t.Errorf("after it: %v", err)
	}
	other := openSQL(t, r)
	time.AfterFunc(50*time.Millisecond, func() { other.Close() })
	if err := runSQL(t, other, endless); err == nil {
		t.Error("a statement without end ends")
	}
}

// TestSQLClosed: a program that closes its actor doesn't wait for the transaction of a tool, which is rolled back.
func TestSQLClosed(t *testing.T) {
	r := newRig(t, admin.Options{TxDeadline: time.Hour})
	ctx := t.Context()
	s, err := r.client.SQL(ctx, "room", false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r.actor("room", func(*greenroom.Actor) error {
		_, err := s.Run(ctx, "begin immediate; insert into t values (2)", &quiet{})
		return err
	})
	if _, err := s.Run(ctx, "commit", &quiet{}); err == nil || !strings.Contains(err.Error(), "closed the actor") {
		t.Errorf("COMMIT: %v", err)
	}
	if s.InTransaction() || r.count() != 1 {
		t.Errorf("there are %d rows", r.count())
	}
}

// TestBadRequests: what makes no sense is refused with a reason.
func TestBadRequests(t *testing.T) {
	r := newRig(t, admin.Options{})
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return adminsock.Dial(ctx, r.dir) }}}
	defer c.CloseIdleConnections()
	for _, test := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/v1/nothing", "", 404, "not_found"},
		{"GET", "/v1/engine", "", 426, "upgrade_required"},
		{"GET", "/v1/actors/room/sql", "", 426, "upgrade_required"},
		{"POST", "/v1/actors/room/keys/put", "{", 400, "invalid"},
		{"POST", "/v1/actors/room/keys/put", `{"key":"k","valeu":"dg=="}`, 400, "invalid"},
		{"POST", "/v1/actors/room/keys/put", `{"key":"` + strings.Repeat("k", 5000) + `"}`, 413, "too_large"},
		{"POST", "/v1/actors/room/keys/delete", `{}`, 400, "invalid"},
		{"POST", "/v1/actors/room/keys/delete", `{"keys":["nix"]}`, 404, "not_found"},
		{"POST", "/v1/actors/room/queue/send", `{"name":"n","body":nope}`, 400, "invalid"},
		{"POST", "/v1/actors/id:zz/drop", `{}`, 400, "invalid"},
		{"POST", "/v1/actors/id:" + actorstore.IDFromName("new").String() + "/keys/put?create=true", `{"key":"k"}`, 400, "invalid"},
		{"POST", "/v1/actors/" + strings.Repeat("x", 5000) + "/drop", `{}`, 400, "invalid"},
		{"PUT", "/v1/actors/room/database", "no database", 500, "failed"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://x"+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var e admin.Error
		if err = errors.Join(err, json.Unmarshal(text, &e)); err != nil || resp.StatusCode != test.status || e.Code != test.code || e.Message == "" {
			t.Errorf("%s %.60s %.60s: %d %s, %v", test.method, test.path, test.body, resp.StatusCode, text, err)
		}
	}
	if n := r.count(); n != 1 {
		t.Errorf("there are %d rows", n)
	}
}

// TestClose: Close ends what tools do, and a client says what has happened.
func TestClose(t *testing.T) {
	r := newRig(t, admin.Options{})
	e, err := r.client.Engine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shell, err := r.client.SQL(t.Context(), "room", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shell.Run(t.Context(), "begin immediate", &quiet{}); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), []byte("x"), nil); err == nil || !strings.Contains(err.Error(), "doesn't answer any more") {
		t.Errorf("a read: %v", err)
	}
	if _, err := shell.Run(t.Context(), "commit", &quiet{}); err == nil {
		t.Error("a COMMIT succeeds")
	}
	if err := errors.Join(s.Close(), e.Close(), shell.Close()); err != nil {
		t.Error(err)
	}
	if _, err := admin.Dial(t.Context(), r.dir); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("Dial: %v", err)
	}
	if r.server, err = admin.Listen(t.Context(), r.dir, r.store, nil); err != nil { // it can be opened again
		t.Fatal(err)
	}
}
