package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// loggedRig returns a rig, and a function that ends its engine and returns the log.
func loggedRig(t *testing.T) (r *rig, logged func() string) {
	t.Helper()
	r = newRig(t, engine.Options{})
	r.close()
	var log bytes.Buffer
	r.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.start()
	return r, func() string {
		r.reopen()
		return log.String()
	}
}

// exec runs statements at the engine.
func (f *far) exec(sql string) {
	f.p.Helper()
	_, err := askDatabase[rp.Table](f.p, func(n uint32) rp.ToEngine { return rp.Exec{ID: n, Database: f.database(), SQL: sql} })
	must(f.p, err)
}

// rest lets the actor sleep, and returns its database when a request has woken it.
func (f *far) rest() *far {
	f.p.Helper()
	f.p.event(f.at, rp.Intent(rp.IntentSleep))
	f.p.toldToStop(f.at.Actor)
	return f.again(f.p)
}

// TestHostileTables: an actor sleeps and wakes whatever its program has made of the tables by which it is found.
func TestHostileTables(t *testing.T) {
	const (
		endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select "
		meta    = "create table _rivet_meta(key text primary key, value blob); insert into _rivet_meta values ('kv_import_state', cast('done' as blob)); "
	)
	state := fmt.Sprintf("x'%x'", actorstore.LayoutRivetKit.AppendWorkflowField(nil, actorstore.WorkflowState))
	for name, sql := range map[string]string{
		"no table":            meta,
		"other columns":       "create table _rivet_meta(a); create table _rivet_wf_kv(a)",
		"view of meta":        "create view _Rivet_meta as " + endless + "'kv_import_state' as key, i as value from n",
		"view":                meta + "create view _rivet_wf_kv as " + endless + state + " as key, i as value from n",
		"view of long values": meta + "create view _rivet_wf_kv as select " + state + " as key, zeroblob(1000000000) as value",
		"computed": "create table _rivet_meta(key, a); insert into _rivet_meta values ('kv_import_state', 4000000); " +
			"alter table _rivet_meta add column value blob as (replace(hex(zeroblob(a)), hex(zeroblob(a/2)) || '1', ''))",
	} {
		t.Run(name, func(t *testing.T) {
			r, logged := loggedRig(t)
			f := r.envoy("k").farOf("a")
			f.exec(sql)
			f.rest()
			if log := logged(); strings.Contains(log, "sleeps") {
				t.Error(log)
			}
		})
	}
}

// TestHostilePages: an actor sleeps and wakes whatever its program has stored as its database: a table whose pages lead to one page more often than can be read.
func TestHostilePages(t *testing.T) {
	r, logged := loggedRig(t)
	p := r.envoy("k")
	f := p.farOf("a")
	f.exec("create table _rivet_meta(key, value)")
	f = f.rest()
	got, err := askDatabase[rp.Pages](p, func(n uint32) rp.ToEngine { return rp.GetPages{ID: n, Actor: f.at.Actor, Numbers: []uint32{1}} })
	must(t, err)
	f.head = got.Head.Value
	const levels, children = 18, 300
	first := bytes.Clone(got.Pages[0].Data)
	binary.BigEndian.PutUint32(first[28:], levels+2)
	pages := []rp.Page{{Number: 1, Data: first}}
	for n := range uint32(levels) {
		data := []byte{5, 0, 0, children >> 8, children & 0xff, 0, 0, 0}
		data = binary.BigEndian.AppendUint32(data, n+3)
		for i := range children {
			data = binary.BigEndian.AppendUint16(data, uint16(4096-5*(i+1)))
		}
		data = append(data, make([]byte, 4096-len(data))...)
		for i := range children {
			binary.BigEndian.PutUint32(data[4096-5*(i+1):], n+3)
		}
		binary.BigEndian.PutUint16(data[5:], uint16(4096-5*children))
		pages = append(pages, rp.Page{Number: n + 2, Data: data})
	}
	leaf := make([]byte, 4096)
	copy(leaf, []byte{13, 0, 0, 0, 1, 4096 >> 8, 251, 0, 4096 >> 8, 251})
	binary.BigEndian.PutUint16(leaf[5:], 4091)
	binary.BigEndian.PutUint16(leaf[8:], 4091)
	copy(leaf[4091:], []byte{3, 1, 3, 0, 0})
	pages = append(pages, rp.Page{Number: levels + 2, Data: leaf})
	must(t, func() error {
		_, err := askDatabase[rp.Committed](p, func(n uint32) rp.ToEngine {
			return rp.Commit{ID: n, Actor: f.at.Actor, Size: levels + 2, Pages: pages, Fence: f.fence()}
		})
		return err
	}())
	f.rest()
	if log := logged(); strings.Contains(log, "sleeps") {
		t.Error(log)
	}
}

// TestRemoteAnswers: SQL is answered whatever it returns: what is too long for a message, and texts that aren't UTF-8.
func TestRemoteAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		f.exec("create table t(a)")
		_, err := f.execute("select json_extract('{}', cast(x'24ff' as text))")
		refused(t, err, "sqlite.remote_execution_failed")
		long := []rp.Statement{{SQL: "insert into t values (1)"}}
		for range 3 {
			long = append(long, rp.Statement{SQL: "select zeroblob(15000000)"})
		}
		_, err = askDatabase[rp.Results](f.p, func(n uint32) rp.ToEngine { return rp.ExecuteBatch{ID: n, Database: f.database(), Statements: long} })
		refused(t, err, "sqlite.remote_execution_failed")
		f.runs("[count(*)] [[0]] 1 1", "select count(*) from t")
		_, err = f.execute("with recursive n(i) as (select 1 union all select i + 1 from n) select i from n")
		refused(t, err, "read fewer at once")
		names := rp.Statement{SQL: "select 1 as \"" + strings.Repeat("x", 1<<17) + "\""}
		_, err = askDatabase[rp.Results](f.p, func(n uint32) rp.ToEngine {
			return rp.ExecuteBatch{ID: n, Database: f.database(), Statements: []rp.Statement{names, names, names, names, names}}
		})
		must(t, err)
		_, err = askDatabase[rp.Results](f.p, func(n uint32) rp.ToEngine {
			b := rp.ExecuteBatch{ID: n, Database: f.database()}
			for range 200 {
				b.Statements = append(b.Statements, names)
			}
			return b
		})
		refused(t, err, "sqlite.remote_execution_failed")
	})
}

// TestRemoteEndless: SQL that doesn't end ends with its actor, and some time after that is to be destroyed.
func TestRemoteEndless(t *testing.T) {
	r := newRig(t, engine.Options{StopThreshold: 200 * time.Millisecond})
	f := r.envoy("k").farOf("a")
	f.exec("create table t(a); insert into t values (1)")
	endless := func() {
		f.p.say(rp.Exec{ID: 1 << 20, Database: f.database(), SQL: "with recursive n(i) as (select 1 union all select i + 1 from n) insert into t select max(i) from n"})
	}
	endless()
	f.p.event(f.at, rp.Stopped{Code: 1, Message: rp.Some("it is out of patience")})
	f = f.again(f.p)
	f.runs("[count(*)] [[1]] 0 0", "select count(*) from t")
	endless()
	r.want(200, "{}", "DELETE", "/actors/"+f.at.Actor, "")
	f.p.toldToStop(f.at.Actor)
}

// TestPagesRewritten: a database in another form is brought to the one of pages, of which a program that has the old ones is told.
func TestPagesRewritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		f.exec("create table a(v); create table b(v); insert into a values (zeroblob(9000)); insert into b values ('kept'); drop table a")
		f.sleep()
		f = f.again(p)
		got, err := askDatabase[rp.Pages](p, func(n uint32) rp.ToEngine { return rp.GetPages{ID: n, Actor: f.at.Actor, Numbers: []uint32{1, 2, 3}} })
		must(t, err)
		f.head = got.Head.Value
		logged := bytes.Clone(got.Pages[0].Data)
		logged[18], logged[19] = 2, 2 // as of a program that has set journal_mode to WAL
		done, err := askDatabase[rp.Committed](p, func(n uint32) rp.ToEngine {
			return rp.Commit{ID: n, Actor: f.at.Actor, Size: binary.BigEndian.Uint32(logged[28:]), Pages: []rp.Page{{Number: 1, Data: logged}}, Fence: f.fence()}
		})
		must(t, err)
		f.took(done.Head)
		r.reopen()
		f.p = r.reconnect("", "k", p)
		_, err = f.get(3)
		refused(t, err, "head_fence_mismatch")
	})
}

// TestStageEntries: a commit in parts isn't taken that has much in memory besides its pages.
func TestStageEntries(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		f := r.envoy("k").farOf("a")
		tx, err := f.begin()
		must(t, err)
		refused(t, f.segment(tx, 0, rp.Page{Number: 1}), "invalid_request")
		err = nil
		for first := uint32(0); err == nil && first < 20_000; first++ {
			err = f.segment(tx, first)
		}
		refused(t, err, "commit_too_large")
	})
}

// TestRemoteFiles: SQL of a program reaches no files of the engine's machine.
func TestRemoteFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		dir := t.TempDir()
		f := r.envoy("k").farOf("a")
		file := "file:" + dir + "/x.db?vfs=os"
		for _, sql := range []string{"attach ? as x", "vacuum into ?", "attach 'fi' || substr(?, 3) as x"} {
			_, err := f.execute(sql, file)
			refused(t, err, "files of the operating system")
		}
		left, err := os.ReadDir(dir)
		if must(t, err); len(left) > 0 {
			t.Errorf("there are files: %v", left)
		}
		f.runs("[] [] 0 0", "vacuum")
	})
}

// TestRemoteCutOff: a program that has pages doesn't see what SQL has stored of a transaction in which the engine has ended.
func TestRemoteCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, memkv.New())
		s.version = rp.Envoy8
		s.begin()
		f := s.p.farOf("a")
		f.exec("create table t(a); insert into t values ('kept'); pragma cache_size = 5")
		f.exec("begin; update t set a = 'gone'; with recursive n(i) as (select 1 union all select i + 1 from n limit 15) insert into t select zeroblob(3000000) from n")
		s.kill()
		s.end()
		s.faults.Heal()
		s.dead.Store(false)
		var err error
		s.engine, err = engine.Open(t.Context(), s.kv, &s.opts)
		must(t, err)
		s.serve()
		f.p = s.reconnect("", s.p.key, s.p)
		got, err := askDatabase[rp.Pages](f.p, func(n uint32) rp.ToEngine { return rp.GetPages{ID: n, Actor: f.at.Actor, Numbers: []uint32{2, 3}} })
		must(t, err)
		if pages := got.Pages; !bytes.Contains(pages[0].Data, []byte("kept")) || pages[1].Data != nil {
			t.Errorf("the program sees a part of the transaction")
		}
		must(t, s.engine.Close())
		s.stop()
	})
}

// TestRemoteRestart: a transaction over several messages isn't made in part when the engine is started anew meanwhile: its actor is, too.
func TestRemoteRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := r.envoy("k")
		f := p.farOf("a")
		f.exec("create table t(a)")
		f.exec("begin; insert into t values (1)")
		r.reopen()
		f.p = r.reconnect("", "k", p)
		_, err := f.execute("insert into t values (2)")
		refused(t, err, "started anew")
		f.p.toldToStop(f.at.Actor)
		synctest.Wait()
		f = f.again(f.p)
		f.runs("[count(*)] [[0]] 0 0", "select count(*) from t")
	})
}
