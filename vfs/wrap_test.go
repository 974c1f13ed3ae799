package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"
	"github.com/ncruces/go-sqlite3/vfs/adiantum"
	"github.com/ncruces/go-sqlite3/vfs/xts"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// A wrapping is a VFS of go-sqlite3 that sits on this one.
type wrapping struct {
	name string
	wrap func(sqlitevfs.VFS) sqlitevfs.VFS
}

var wrappings = []wrapping{
	{"adiantum", func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) }},
	{"xts", func(v sqlitevfs.VFS) sqlitevfs.VFS { return xts.Wrap(v, nil) }},
	{"checksums", func(v sqlitevfs.VFS) sqlitevfs.VFS { return v }},
	{"adiantum and checksums", func(v sqlitevfs.VFS) sqlitevfs.VFS { return adiantum.Wrap(v, nil) }},
}

func (w *wrapping) encrypts() bool { return w.name != "checksums" }

func (w *wrapping) checks() bool { return strings.HasSuffix(w.name, "checksums") }

// A wrapped is a rig's actor, mounted below a wrapping.
type wrapped struct {
	wrapping
	vfs *vfs.VFS
}

// mount mounts a.
func (w *wrapping) mount(t *testing.T, a *actorstore.Actor) *wrapped {
	t.Helper()
	v := vfs.New(&vfs.Options{TempDir: t.TempDir()})
	if err := v.Mount(t.Context(), "a", a); err != nil {
		t.Fatal(err)
	}
	sqlitevfs.Register("wrapped", w.wrap(vfs.Files{VFS: v}))
	return &wrapped{*w, v}
}

// open opens a connection.
func (w *wrapped) open(t *testing.T) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open("file:/a?vfs=wrapped&hexkey=" + strings.Repeat("0123456789abcdef", 4))
	if err != nil {
		t.Fatal(err)
	}
	do(t, c, "PRAGMA busy_timeout=60000")
	return c
}

// create is open for a new database, which gets its checksums.
func (w *wrapped) create(t *testing.T) *sqlite3.Conn {
	t.Helper()
	c := w.open(t)
	if w.checks() {
		if err := c.EnableChecksums("main"); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// unmount undoes mount.
func (w *wrapped) unmount(t *testing.T) {
	t.Helper()
	sqlitevfs.Unregister("wrapped")
	if err := w.vfs.Unmount("a"); err != nil {
		t.Fatal(err)
	}
}

var wrapModes = []string{"DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL"}

// TestWrap uses a database through go-sqlite3's encrypting VFSes, and with SQLite's
// checksums, in every journal mode: several connections write and read it, and it is
// found again.
func TestWrap(t *testing.T) {
	const secret = "nobody may read this"
	for _, w := range wrappings {
		for _, mode := range wrapModes {
			t.Run(w.name+"/"+mode, func(t *testing.T) {
				r := newRig(t, batch.Limits{})
				v := w.mount(t, r.Actor)
				c := v.create(t)
				scalar(t, c, "PRAGMA journal_mode="+mode, strings.ToLower(mode))
				do(t, c, "PRAGMA cache_size=5; create table t(a integer primary key, n, pad)")
				do(t, c, "insert into t select value, 0, zeroblob(3000) from generate_series(1, 30)")
				do(t, c, "create table s(a); insert into s values ('"+secret+"')")
				together(t, v, 3, 10)
				scalar(t, c, "select sum(n) from t", "60")
				do(t, c, "begin; delete from t; rollback; vacuum")
				if w.checks() {
					scalar(t, c, "PRAGMA checksum_verification", "1")
				}
				for e, err := range r.Actor.List(t.Context(), actorstore.ListOptions{}) {
					if err != nil || w.encrypts() && (bytes.Contains(e.Value, []byte(secret)) || bytes.Contains(e.Value, format.Magic)) {
						t.Errorf("%s is not encrypted, %v", actorstore.Describe(e.Key), err)
					}
				}
				rig.Exact(t, r.Actor)
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				v.unmount(t)
				r.Reopen(t, batch.Limits{})
				v = w.mount(t, r.Actor)
				c = v.open(t)
				scalar(t, c, "select sum(n) || (select a from s) || (select * from pragma_integrity_check) from t", "60"+secret+"ok")
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				v.unmount(t)
				rig.Exact(t, r.Actor)
			})
		}
	}
}

// together runs several connections that add one to two rows each, and look at the sum.
func together(t *testing.T, v *wrapped, conns, rounds int) {
	t.Helper()
	var wg sync.WaitGroup
	for n := range conns {
		c := v.open(t)
		wg.Go(func() {
			for i := range rounds {
				err := c.Exec(fmt.Sprintf("begin immediate; update t set n = n + 1 where a in (%d, %d); commit", (n+i)%30+1, (n+i+7)%30+1))
				if err != nil {
					t.Error(err)
					break
				}
				scalar(t, c, "select sum(n) % 2 from t", "0")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestWrapCrash stops transactions after every engine commit: what is left is the state
// that was acknowledged last, or the next.
func TestWrapCrash(t *testing.T) {
	t.Parallel()
	points := 0
	for _, w := range wrappings {
		for _, mode := range []string{"DELETE", "WAL"} {
			for _, sync := range []string{"FULL", "NORMAL"} {
				t.Run(w.name+"/"+mode+"/"+sync, func(t *testing.T) { points += w.crash(t, mode, sync, testkit.Short()) })
			}
		}
	}
	t.Logf("%d crash points", points)
}

func (w *wrapping) crash(t *testing.T, mode, sync string, few bool) int {
	t.Helper()
	tp := engines.NewTape()
	r := openRig(t, tp, batch.Limits{})
	v := w.mount(t, r.Actor)
	c := v.create(t)
	do(t, c, "PRAGMA journal_mode="+mode+"; PRAGMA synchronous="+sync+"; PRAGMA wal_autocheckpoint=8; PRAGMA cache_size=5")
	do(t, c, "create table t(a integer primary key, b); insert into t values (1, 'zero')")
	const state = "select count(*) || ' ' || sum(a) || ' ' || max(b) from t"
	acks := []ack{{text1(t, c, state), tp.Len()}}
	for _, sql := range []string{
		"insert into t values (2, 'one')", "update t set b = 'two' where a = 1",
		"insert into t select value, randomblob(1500) from generate_series(10, 40)", "delete from t where a > 30", "update t set b = 'zz'",
	} {
		do(t, c, sql)
		acks = append(acks, ack{text1(t, c, state), tp.Len()})
	}
	end := tp.Len()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	v.unmount(t)
	stride := 1
	if few {
		stride = max(1, (end-acks[0].after)/4)
	}
	points := 0
	for n := acks[0].after; n <= end; n += stride {
		w.afterCrash(t, tp.At(t, n), state, acknowledged(acks, n), fmt.Sprintf("after commit %d of %d", n, end))
		points++
	}
	if err := errors.Join(r.Actor.Close(), r.Store.Close(), tp.Close()); err != nil {
		t.Error(err)
	}
	return points
}

// afterCrash opens what is left and compares.
func (w *wrapping) afterCrash(t *testing.T, tp *engines.Tape, state string, want []string, where string) {
	t.Helper()
	r := openRig(t, tp, batch.Limits{})
	v := w.mount(t, r.Actor)
	c := v.open(t)
	got := text1(t, c, state)
	ok := false
	for _, s := range want {
		ok = ok || s == got
	}
	if !ok {
		t.Errorf("%s: it holds %q, want one of %q", where, got, want)
	}
	scalar(t, c, "PRAGMA integrity_check", "ok")
	if w.checks() {
		scalar(t, c, "PRAGMA checksum_verification", "1")
	}
	do(t, c, "insert into t values (1000, 'after')")
	scalar(t, c, "PRAGMA integrity_check", "ok")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	v.unmount(t)
	rig.Exact(t, r.Actor)
	if err := errors.Join(r.Actor.Close(), r.Store.Close(), tp.Close()); err != nil {
		t.Error(err)
	}
}

// text1 returns the single text that a query yields.
func text1(t *testing.T, c *sqlite3.Conn, sql string) string {
	t.Helper()
	s, _, err := c.Prepare(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer s.Close()
	if !s.Step() {
		t.Fatalf("%s: %v", sql, s.Err())
	}
	return s.ColumnText(0)
}
