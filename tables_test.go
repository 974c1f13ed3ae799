package greenroom_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/cbor"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// programTables is the schema of a database as RivetKit 2.3.19 makes it, but for tables that nothing here reads.
const programTables = `
create table _rivet_meta(key text primary key, value blob not null) strict, without rowid;
create table _rivet_actor(id integer primary key check (id = 1), has_initialized integer not null, input blob) strict;
create table _rivet_actor_state(id integer primary key check (id = 1), state blob not null) strict;
create table _rivet_schedule_events(event_id text primary key, trigger_at integer not null, action text not null, args blob, kind integer not null, cron_expression text,
	timezone text, interval_ms integer, last_started_at integer, max_history integer not null, ray_id text, traceparent text, tracestate text) strict, without rowid;
create table _rivet_conns(conn_id text primary key, parameters blob not null, gateway_id blob not null, request_id blob not null, request_path text not null, request_headers blob not null) strict, without rowid;
create table _rivet_conn_state(conn_id text primary key, state blob not null, server_message_index integer not null, client_message_index integer not null, subscriptions blob not null) strict, without rowid;
create table _rivet_queue(id integer primary key, name text not null, body blob not null, created_at integer not null, ray_id text, traceparent text, tracestate text) strict;
create table _rivet_wf_kv(key blob primary key, value blob not null) strict, without rowid;
create table _rivet_user_kv(key blob primary key, value blob not null) strict, without rowid;
insert into _rivet_actor values (1, 1, x'a165737461727405');
insert into _rivet_actor_state values (1, x'a1616e06');
insert into _rivet_schedule_events values ('late', 2000, 'ring', null, 0, null, null, null, null, 0, null, null, null), ('soon', 1000, 'add', x'811864', 1, '* * * * *', 'UTC', null, null, 0, null, null, null);
insert into _rivet_conns values ('one', x'a16377686f626d65', x'c4ae2c56', x'00000001', '/connect', x'a164686f7374687468652d686f7374');
insert into _rivet_conn_state values ('one', x'01', 4, 3, x'82616e656f74686572');
insert into _rivet_queue values (1, 'jobs', x'a1616e00', 5000, null, null, null), (2, 'other', x'01', 6000, null, null, null), (3, 'jobs', x'a1616e02', 7000, null, null, null);
insert into _rivet_wf_kv values (x'0601150114', x'6f6e65');
insert into _rivet_user_kv values (x'046131', x'31'), (x'046132', x'32'), (x'0462', x'33');`

// makeOfProgram makes an actor as a program of RivetKit 2.3 leaves it. It has old parts under keys, too.
func makeOfProgram(t *testing.T, store *greenroom.Store, moved string, head bool) {
	t.Helper()
	a, err := store.Lower().Named(t.Context(), "room/a", &actorstore.ActorOptions{Layout: actorstore.LayoutRivetKit})
	testkit.Must(t, err)
	testkit.Must(t, a.User().Put(t.Context(), []byte("a1"), []byte("old")))
	testkit.Must(t, a.Close())
	door, err := store.Actor(t.Context(), "room/a", nil)
	testkit.Must(t, err)
	testkit.Must(t, testkit.Second(door.SQL().ExecContext(t.Context(), programTables)))
	testkit.Must(t, testkit.Second(door.SQL().ExecContext(t.Context(), "insert into _rivet_meta values ('kv_import_state', cast(? as blob))", moved)))
	if head {
		testkit.Must(t, door.Lower().Put(t.Context(), actorstore.PagesHeadKey(), []byte{1, 0, 9, 0, 0, 0, 0, 0, 0, 0}))
	}
	testkit.Must(t, door.Close())
}

// TestTables: what a program of RivetKit 2.3 keeps in tables is read as what an actor keeps under keys, and can't be written.
func TestTables(t *testing.T) {
	store, err := greenroom.New(t.Context(), memkv.New(), nil)
	testkit.Must(t, err)
	makeOfProgram(t, store, "done", true)
	testkit.Must(t, store.View(t.Context(), "room/a", func(v *greenroom.View) error {
		c, err := v.Record()
		testkit.Must(t, err)
		if state, err := greenroom.State[map[string]int](v); err != nil || state["n"] != 6 || !c.Initialized || fmt.Sprintf("%x", c.Input) != "a165737461727405" {
			t.Errorf("state %v, %v, record %+v", state, err, c)
		}
		events, err := v.Events()
		testkit.Must(t, err)
		if len(events) != 2 || events[0].ID != "soon" || !events[0].At.Equal(time.UnixMilli(1000)) || events[0].Cron != "* * * * *" || events[1].Action != "ring" || events[1].Args != nil {
			t.Errorf("events %+v", events)
		}
		for _, tt := range []struct {
			opts *queue.ListOptions
			want []queue.ID
		}{{nil, []queue.ID{1, 2, 3}}, {&queue.ListOptions{Names: []string{"jobs"}}, []queue.ID{1, 3}}, {&queue.ListOptions{After: 1, Limit: 1}, []queue.ID{2}}} {
			var got []queue.ID
			for m, err := range v.Messages(tt.opts) {
				testkit.Must(t, err)
				got = append(got, m.ID)
				if m.State != "ready" || m.Created.IsZero() || len(m.Body) != m.Size {
					t.Errorf("%+v", m)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%+v: %v, want %v", tt.opts, got, tt.want)
			}
		}
		for c, err := range v.Connections() {
			testkit.Must(t, errors.Join(err, c.Err))
			if r := c.Record; r.ID != "one" || r.Path != "/connect" || r.Server != 4 || r.Client != 3 || !slices.Equal(r.Subscriptions, []string{"n", "other"}) ||
				fmt.Sprint(r.Gateway, r.Request) != "c4ae2c56 00000001" || len(r.Headers) != 1 || r.Headers[0].Value != "the-host" {
				t.Errorf("%+v", c.Record)
			}
		}
		lookAtKeys(t, v)
		_, damage, err := v.Workflow()
		if err != nil || len(damage) > 0 {
			t.Errorf("the workflow: %v, %v", damage, err)
		}
		return nil
	}))
	a, err := store.Actor(t.Context(), "room/a", nil)
	testkit.Must(t, err)
	state, err := cbor.Marshal(map[string]int{"n": 7})
	testkit.Must(t, err)
	for name, write := range map[string]func(tx *greenroom.Tx) error{
		"the state": func(tx *greenroom.Tx) error { return tx.SetRawState(state) },
		"a key":     func(tx *greenroom.Tx) error { return tx.Put([]byte("a1"), nil) },
		"a message": func(tx *greenroom.Tx) error { _, err := tx.Enqueue(queue.Send{Name: "jobs"}); return err },
	} {
		if err := a.Update(t.Context(), write); !errors.Is(err, greenroom.ErrProgram) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Must(t, errors.Join(a.Close(), store.Close()))
}

// lookAtKeys reads the user keys.
func lookAtKeys(t *testing.T, v *greenroom.View) {
	t.Helper()
	value, err := v.Get([]byte("a2"))
	if err != nil || string(value) != "2" {
		t.Errorf("got %q, %v", value, err)
	}
	if _, err := v.Get([]byte("none")); !errors.Is(err, greenroom.ErrNotFound) {
		t.Error(err)
	}
	for _, tt := range []struct {
		opts greenroom.ListOptions
		want string
	}{
		{greenroom.ListOptions{}, "a1=1 a2=2 b=3 "}, {greenroom.ListOptions{Prefix: []byte("a"), Reverse: true}, "a2=2 a1=1 "},
		{greenroom.ListOptions{Start: []byte("a2"), End: []byte("b")}, "a2=2 "}, {greenroom.ListOptions{Limit: 1, KeysOnly: true}, "a1= "}, {greenroom.ListOptions{Prefix: []byte("a"), Start: []byte("b")}, ""},
	} {
		got := ""
		for e, err := range v.List(tt.opts) {
			testkit.Must(t, err)
			got += fmt.Sprintf("%s=%s ", e.Key, e.Value)
		}
		if got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.opts, got, tt.want)
		}
	}
}

// TestTablesFound: an actor whose program keeps its workflow in a table is found by the workflow's state, and so is a copy.
func TestTablesFound(t *testing.T) {
	store, err := greenroom.New(t.Context(), memkv.New(), nil)
	testkit.Must(t, err)
	makeOfProgram(t, store, "done", true)
	a, err := store.Actor(t.Context(), "room/a", nil)
	testkit.Must(t, err)
	key := actorstore.LayoutRivetKit.AppendWorkflowField(nil, actorstore.WorkflowState)
	testkit.Must(t, testkit.Second(a.SQL().ExecContext(t.Context(), "insert into _rivet_wf_kv values (?, cast('completed' as blob))", key)))
	testkit.Must(t, a.Close())
	actors, rows, err := store.RepairIndex(t.Context())
	if testkit.Must(t, err); actors != 1 || rows != 0 {
		t.Errorf("%d actors, %d rows are repaired", actors, rows)
	}
	testkit.Must(t, store.Fork(t.Context(), "room/a", "room/b"))
	var found []string
	for info, err := range store.Actors(t.Context(), &greenroom.ActorsOptions{Workflow: []string{"completed"}}) {
		testkit.Must(t, err)
		if found = append(found, info.Name); info.Attributes.Since.IsZero() {
			t.Errorf("%s: its state has no time", info.Name)
		}
	}
	if slices.Sort(found); !slices.Equal(found, []string{"room/a", "room/b"}) {
		t.Errorf("found %q", found)
	}
	testkit.Must(t, store.Close())
}

// TestTablesGone: an actor whose program has removed its database has nothing.
func TestTablesGone(t *testing.T) {
	store, err := greenroom.New(t.Context(), memkv.New(), nil)
	testkit.Must(t, err)
	a, err := store.Lower().Named(t.Context(), "room/a", &actorstore.ActorOptions{Layout: actorstore.LayoutRivetKit})
	testkit.Must(t, err)
	testkit.Must(t, a.Put(t.Context(), actorstore.PagesHeadKey(), []byte{1, 0, 9, 0, 0, 0, 0, 0, 0, 0}))
	testkit.Must(t, a.Close())
	testkit.Must(t, store.View(t.Context(), "room/a", func(v *greenroom.View) error {
		_, err := v.RawState()
		return err
	}))
	testkit.Must(t, store.Close())
}

// TestTablesBefore: an actor of before, whose keys aren't moved yet, is read by its keys.
func TestTablesBefore(t *testing.T) {
	for _, head := range []bool{false, true} {
		store, err := greenroom.New(t.Context(), memkv.New(), nil)
		testkit.Must(t, err)
		makeOfProgram(t, store, "importing", head)
		testkit.Must(t, store.View(t.Context(), "room/a", func(v *greenroom.View) error {
			value, err := v.Get([]byte("a1"))
			if string(value) != "old" {
				t.Errorf("got %q", value)
			}
			return err
		}))
		testkit.Must(t, store.Close())
	}
}
