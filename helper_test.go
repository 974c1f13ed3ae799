package greenroom_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/conn"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

var ctx = context.Background()

// A rig is an actor on an engine in memory that counts and fails.
type rig struct {
	engine *faultkv.Engine
	store  *greenroom.Store
	actor  *greenroom.Actor
	log    *logs
}

// logs is a log that is kept.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// lines returns how many lines have the text.
func (l *logs) lines(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func newRig(t testing.TB, limits batch.Limits) *rig { return newRigOn(t, memkv.New(), limits) }

func newRigOn(t testing.TB, engine kv.Engine, limits batch.Limits) *rig {
	t.Helper()
	limits, err := envlimits.Apply(limits)
	must(t, err)
	r := &rig{engine: faultkv.New(engine), log: &logs{}}
	r.store, err = greenroom.New(ctx, r.engine, &greenroom.Options{Limits: limits, Logger: slog.New(slog.NewTextHandler(r.log, nil))})
	must(t, err)
	t.Cleanup(func() {
		r.engine.Heal()
		_ = r.actor.Close() // of the tests' own handles some are poisoned
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	r.open(t)
	return r
}

// must fails the test if err is not nil.
var must = testkit.Must

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// open takes the actor, anew if there was a handle.
func (r *rig) open(t testing.TB) {
	t.Helper()
	if r.actor != nil {
		if err := r.actor.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if r.actor, err = r.store.Actor(ctx, "shop", &greenroom.ActorOptions{
		DB:     &greenroom.DBOptions{Pragmas: []string{"foreign_keys=ON", "cache_size=20"}, TxMemory: 1 << 20},
		Traces: &greenroom.TracesOptions{ChunkAge: time.Hour}, // by itself nothing is written
	}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) update(t testing.TB, fn func(tx *greenroom.Tx) error) {
	t.Helper()
	if err := r.actor.Update(ctx, fn); err != nil {
		t.Fatal(err)
	}
}

// holds returns what the actor has: the rows of table t, the value of key k, its state, the
// argument of the event "e", and how many messages and connections there are; as a
// transaction sees it and as a view does, which must be the same.
func (r *rig) holds(t testing.TB) string {
	t.Helper()
	var own, seen string
	r.update(t, func(tx *greenroom.Tx) error {
		q, err := r.actor.Queue(ctx)
		if err != nil {
			return err
		}
		conns, err := tx.Connections()
		if err != nil {
			return err
		}
		own, err = describe(tx, q.Len(), len(conns.Conns()))
		return err
	})
	if err := r.actor.View(ctx, func(v *greenroom.View) (err error) {
		messages, conns := 0, 0
		for m, err := range v.Messages(nil) {
			if messages++; err != nil || m.Err != nil {
				return errors.Join(err, m.Err)
			}
		}
		for c, err := range v.Connections() {
			if conns++; err != nil || c.Err != nil {
				return errors.Join(err, c.Err)
			}
		}
		seen, err = describe(v, messages, conns)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if own != seen {
		t.Errorf("a transaction sees %s, a view %s", own, seen)
	}
	return own
}

// A reader is what transactions and views have in common.
type reader interface {
	QueryRow(query string, args ...any) *sql.Row
	Get(key []byte) ([]byte, error)
	RawState() ([]byte, error)
	Events() ([]persist.Event, error)
}

func describe(r reader, messages, conns int) (string, error) {
	var rows int
	if err := r.QueryRow("select count(*) from t").Scan(&rows); err != nil {
		return "", err
	}
	v, err := r.Get([]byte("k"))
	if err != nil && !errors.Is(err, greenroom.ErrNotFound) {
		return "", err
	}
	state, err := greenroom.State[string](r)
	if err != nil {
		return "", err
	}
	events, err := r.Events()
	if err != nil {
		return "", err
	}
	scheduled := ""
	for _, e := range events {
		scheduled += fmt.Sprintf("%s(%s)", e.ID, e.Args[2:])
	}
	return fmt.Sprintf("%d rows, k=%s, state %s, %s, %d messages, %d connections", rows, v, state, scheduled, messages, conns), nil
}

// has is what holds returns after n writes, the last one of that value.
func has(n int, value string) string {
	return fmt.Sprintf("%[1]d rows, k=%[2]s, state %[2]s, e(%[2]s), %[1]d messages, %[1]d connections", n, value)
}

// write is what the transactions of the tests do: something with every part of the actor.
func write(tx *greenroom.Tx, value string) error {
	if _, err := tx.Exec("insert into t(b) values (?)", value); err != nil {
		return err
	}
	conns, err := tx.Connections()
	if err != nil {
		return err
	}
	_, err = conns.Create(conn.Info{Path: "/", Request: conn.RequestID([]byte(rand.Text()[:4])), Parameters: []byte{0xf6}})
	if err != nil {
		return err
	}
	if _, err := tx.Enqueue(queue.Send{Name: "m", Body: value}); err != nil {
		return err
	}
	if _, err := tx.Schedule(persist.Job{ID: "e", Action: "remind", Args: []any{value}, At: time.Now().Add(time.Hour)}); err != nil {
		return err
	}
	tx.Span().Event("wrote", traces.String("value", value))
	return errors.Join(greenroom.SetState(tx, value), tx.Put([]byte("k"), []byte(value)))
}

func create(tx *greenroom.Tx) error {
	_, err := tx.Exec("create table t(a integer primary key, b references u(a) deferrable initially deferred)")
	if err == nil {
		_, err = tx.Exec("create table u(a primary key); insert into u values ('old'), ('new')")
	}
	if err != nil {
		return err
	}
	return write(tx, "old")
}
