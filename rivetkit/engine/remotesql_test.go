package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/testkit"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// execute sends a statement to the engine, and returns its rows, its changes and the id of the last one that was inserted.
func (f *far) execute(sql string, params ...rp.Value) (string, error) {
	f.p.Helper()
	got, err := askDatabase[rp.Result](f.p, func(n uint32) rp.ToEngine {
		return rp.Execute{ID: n, Database: f.database(), Statement: rp.Statement{SQL: sql, Params: params}}
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(got.Columns, got.Rows, got.Changes, got.LastInsertID.Value), nil
}

func (f *far) database() rp.Database {
	return rp.Database{Namespace: "default", Actor: f.at.Actor, Generation: uint64(f.at.Generation)}
}

// runs fails the test if a statement doesn't return this.
func (f *far) runs(want, sql string, params ...rp.Value) {
	f.p.Helper()
	if got, err := f.execute(sql, params...); got != want {
		f.p.Errorf("%s: %s, %v, not %s", sql, got, err, want)
	}
}

// TestRemoteSQL: the engine runs the SQL of a program that has no SQLite, on one connection for a start of the actor. What it stores the program reads as pages at the next start.
func TestRemoteSQL(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		got, err := askDatabase[rp.Table](p, func(n uint32) rp.ToEngine {
			return rp.Exec{ID: n, Database: f.database(), SQL: "create table t(i integer primary key, v any); insert into t(v) values (1), (2); select count(*) as n from t; -- end"}
		})
		if must(t, err); fmt.Sprint(got) != "{[n] [[2]]}" {
			t.Errorf("got %v", got)
		}
		f.runs("[] [] 1 3", "insert into t(v) values (?)", "text")
		f.runs("[] [] 1 4", "insert into t(v) values (?2)", nil, 1.5)
		f.runs("[i v] [[3 text] [4 1.5]] 1 4", "select * from t where i > ?", int64(2))
		f.runs("[v z] [[[1 2] <nil>]] 1 4", "select ? as v, null as z", []byte{1, 2})
		for _, bad := range []string{"select nothing from t", "insert into", "attach 'file:other.db' as x", "select \"\x00\""} {
			_, err := f.execute(bad)
			refused(t, err, "sqlite.remote_execution_failed")
		}
		_, err = f.execute("select ?", strings.Repeat("x", 1<<17))
		refused(t, err, "sqlite.remote_execution_failed")
		_, err = f.execute("select zeroblob(17000000)")
		refused(t, err, "sqlite.remote_execution_failed")
		_, err = f.execute("select 1", int64(1))
		refused(t, err, "sqlite.remote_execution_failed")
		batch := func(sql ...string) (rp.Results, error) {
			var list []rp.Statement
			for _, text := range sql {
				list = append(list, rp.Statement{SQL: text})
			}
			return askDatabase[rp.Results](p, func(n uint32) rp.ToEngine { return rp.ExecuteBatch{ID: n, Database: f.database(), Statements: list} })
		}
		all, err := batch("insert into t(v) values (5)", "select count(*) from t")
		if must(t, err); len(all) != 2 || all[0].LastInsertID.Value != 5 || fmt.Sprint(all[1].Rows) != "[[5]]" {
			t.Errorf("got %v", all)
		}
		_, err = batch("delete from t", "insert into nothing values (1)")
		refused(t, err, "sqlite.remote_execution_failed")
		f.runs("[n] [[5]] 5 5", "select count(*) as n from t") // as changes() has it: of what was undone
		// A transaction over several messages, and one that its actor leaves.
		f.runs("[] [] 5 5", "begin")
		must(t, testkit.Second(batch("delete from t where i = 1")))
		f.runs("[] [] 1 5", "commit")
		f.runs("[] [] 1 5", "begin immediate")
		must(t, testkit.Second(f.execute("delete from t")))
		f.sleep()
		f = f.again(p)
		f.runs("[n] [[4]] 0 0", "select count(*) as n from t")
		f.sleep()
		// As pages; and by the engine again.
		f = f.again(p)
		first, err := askDatabase[rp.Pages](p, func(n uint32) rp.ToEngine { return rp.GetPages{ID: n, Actor: f.at.Actor, Numbers: []uint32{1, 99}} })
		if must(t, err); !bytes.HasPrefix(first.Pages[0].Data, []byte("SQLite format 3\x00")) || first.Pages[1].Data != nil || first.Head.Value < 2 {
			t.Errorf("the head is %v", first.Head)
		}
		f.head = first.Head.Value
		must(t, testkit.Second(askDatabase[rp.Committed](p, func(n uint32) rp.ToEngine {
			return rp.Commit{ID: n, Actor: f.at.Actor, Pages: first.Pages[:1], Size: 2, Fence: f.fence()}
		})))
		f.runs("[n] [[4]] 0 0", "select count(*) as n from t")
		_, err = f.get(1) // the program has changed its mind, and has an old head
		refused(t, err, "head_fence_mismatch")
		at := f.at
		at.Generation++
		_, err = (&far{p: p, at: at}).execute("select 1")
		refused(t, err, "actor does not exist")
	})
}

// TestEnvoyFound: an actor whose program keeps a workflow in a table is found by its state when it sleeps.
func TestEnvoyFound(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		state := actorstore.LayoutRivetKit.AppendWorkflowField(nil, actorstore.WorkflowState)
		f.runs("[] [] 0 0", "create table _rivet_meta(key text primary key, value blob)")
		f.runs("[] [] 1 1", "insert into _rivet_meta values ('kv_import_state', cast('done' as blob))")
		f.runs("[] [] 1 1", "create table _rivet_wf_kv(key blob primary key, value blob)")
		f.runs("[] [] 1 1", "insert into _rivet_wf_kv values (?, cast('sleeping' as blob))", state)
		found := func() (found []string) {
			store, err := actorstore.Open(t.Context(), r.kv, &actorstore.Options{ReadOnly: true})
			must(t, err)
			defer func() { must(t, store.Close()) }()
			for info, err := range store.Actors(t.Context(), &actorstore.ActorsOptions{Workflow: []string{"sleeping", "completed"}}) {
				must(t, err)
				found = append(found, info.Name+" "+info.Attributes.Workflow)
			}
			return found
		}
		f.sleep()
		if got := found(); !slices.Equal(got, []string{"counter/a sleeping"}) {
			t.Errorf("found %q", got)
		}
		f = f.again(f.p)
		f.runs("[] [] 1 0", "update _rivet_wf_kv set value = cast('completed' as blob)")
		f.sleep()
		if got := found(); !slices.Equal(got, []string{"counter/a completed"}) {
			t.Errorf("found %q", got)
		}
	})
}

// TestEnvoyKeys: the pages of an envoy's actor aren't among its keys, and it can't write or delete them there.
func TestEnvoyKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		must(t, f.commit(2, 1, "one", "two"))
		f.p.put(f.at.Actor, "a", "1")
		f.p.put(f.at.Actor, "\x08\x02", "2")
		if got := f.p.list(f.at.Actor, rp.KVList{Query: rp.KVAll{}}); got != "\x08\x02=2 a=1" {
			t.Errorf("its keys are %q", got)
		}
		page := string(actorstore.LayoutRivetKit.AppendFileChunk(nil, actorstore.FileMain, 0))
		if got, ok := f.p.keys(f.at.Actor, rp.KVPut{Pairs: []rp.KVPair{{Key: []byte(page), Value: []byte("x")}}}).(rp.KVError); !ok || !strings.Contains(got.Message, "reserved") {
			t.Errorf("%+v", got)
		}
		f.p.keys(f.at.Actor, rp.KVDrop{})
		if got := f.p.list(f.at.Actor, rp.KVList{Query: rp.KVAll{}}); got != "" {
			t.Errorf("its keys are %q", got)
		}
		f.has("one two", 1, 2)
	})
}
