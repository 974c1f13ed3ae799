package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/rivetkit/engine"
	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// loggedRig returns a rig, and what its engine has logged after that has ended.
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
