package vfs_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/vfs"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A logBook is a slog.Handler that keeps the lines, with the actor of each.
type logBook struct {
	mu    sync.Mutex
	level slog.Level
	lines []string
}

func (b *logBook) Enabled(_ context.Context, l slog.Level) bool { return l >= b.level }
func (b *logBook) WithAttrs([]slog.Attr) slog.Handler           { return b }
func (b *logBook) WithGroup(string) slog.Handler                { return b }
func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "actor_id" {
			line += " actor_id=" + a.Value.String()
		}
		return true
	})
	b.lines = append(b.lines, line)
	return nil
}

// want fails the test unless these were the lines, and forgets them.
func (b *logBook) want(t *testing.T, id actorstore.ID, lines ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range lines {
		lines[i] += " actor_id=" + id.String()
	}
	if !slices.Equal(b.lines, lines) {
		t.Errorf("logged %q, want %q", b.lines, lines)
	}
	b.lines = nil
}

// What outlives a statement is logged once; ordinary work, and errors that their
// callers get, are not.
func TestEvents(t *testing.T) {
	r := newRig(t, batch.Limits{AtomicBatches: 1, Storage: 4 << 20})
	book := &logBook{level: slog.LevelDebug}
	opts := &vfs.Options{Env: part.Env{Logger: slog.New(book)}, TxMemory: 1}
	id := r.Actor.ID()
	db, err := vfs.Open(t.Context(), r.Actor, opts)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table t(a integer primary key, b); insert into t(b) values (1)")
	one[int](t, db, "select count(*) from t")
	if _, err := db.ExecContext(t.Context(), "insert into t(a) values (1)"); err == nil {
		t.Error("no error")
	}
	book.want(t, id)

	exec(t, db, "with n(i) as (select 1 union all select i+1 from n where i < 200) insert into t(b) select randomblob(3000) from n")
	exec(t, db, "update t set b = randomblob(3000)")
	book.want(t, id, "DEBUG vfs: a transaction is too large for one commit and takes the journal")

	// A failure in the middle of what takes the journal.
	commits := 0
	r.Engine.Hook(func(op faultkv.Op) error {
		if op.Point == faultkv.BeforeCommit {
			if commits++; commits == 4 {
				return errLost
			}
		}
		return nil
	})
	if _, err := db.ExecContext(t.Context(), "update t set b = randomblob(3000)"); err == nil {
		t.Error("no error")
	}
	r.Engine.Hook(nil)
	if _, err := db.ExecContext(t.Context(), "select * from t"); err == nil {
		t.Error("no error")
	}
	book.want(t, id,
		"DEBUG vfs: a transaction is too large for one commit and takes the journal",
		"ERROR vfs: the database refuses everything until its actor is opened again")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	r.Reopen(t, batch.Limits{AtomicBatches: 1})
	if db, err = vfs.Open(t.Context(), r.Actor, opts); err != nil {
		t.Fatal(err)
	}
	book.want(t, id, "INFO vfs: rolling back a transaction that was cut off")

	// Another owner.
	other, err := actorstore.Open(t.Context(), r.Engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := other.Named(t.Context(), "lobby", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := db.ExecContext(t.Context(), "insert into t(b) values (1)"); err == nil {
			t.Error("no error")
		}
	}
	book.want(t, id, "WARN vfs: the database refuses everything, the actor has another owner")
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := taken.Close(); err != nil {
		t.Error(err)
	}
}
