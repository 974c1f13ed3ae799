package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/oldkeys"
)

// rename rewrites the files of a into the older form, with chunks as an older writer
// left them: zeros at their end are not stored.
func rename(t testing.TB, a *actorstore.Actor, base string) {
	t.Helper()
	var b batch.Batch
	b.Mode = batch.Ordered
	for e, err := range a.List(t.Context(), actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceSQLite}}) {
		if err != nil {
			t.Fatal(err)
		}
		key, ok := oldkeys.Key(layout, base, e.Key)
		if !ok {
			t.Fatalf("%s has no older name", actorstore.Describe(e.Key))
		}
		v := bytes.Clone(e.Value)
		if len(e.Key) > 3 {
			v = bytes.TrimRight(v, "\x00")
		}
		b.Put(key, v)
		b.Delete(e.Key)
	}
	if err := a.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

// namedLeft lists what a stores under keys of the older form.
func namedLeft(t testing.TB, a actorstore.Reader) (keys []string) {
	t.Helper()
	for e, err := range a.List(t.Context(), actorstore.ListOptions{Prefix: []byte{actorstore.NamespaceSQLite}, KeysOnly: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if words := actorstore.Describe(e.Key); strings.HasPrefix(words, "sqlite/named/") {
			keys = append(keys, words)
		}
	}
	return keys
}

// A leaf of the table ends with the end of a blob. Its last byte isn't zero: a page stored without
// its last byte would be longer when it is rewritten, which a full quota refuses.
var olderSetup = []string{
	"create table t(a integer primary key, b blob)",
	"insert into t(b) select cast(randomblob(699) || x'01' as blob) from generate_series(1, 60)",
	"insert into t(b) values (zeroblob(9000))",
}

// older makes a database of the older form and returns its content.
func older(t testing.TB, r *fixture, base string) (content string) {
	t.Helper()
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range olderSetup {
		exec(t, db, s)
	}
	if content, err = tryContent(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rename(t, r.Actor, base)
	return content
}

// TestNamed opens databases of the older form. Reading leaves them as they are, the first write
// rewrites everything, and an open view still reads what it did before.
func TestNamed(t *testing.T) {
	for _, limits := range []batch.Limits{{}, oneBatch, {Entries: 2}, {Payload: 9000}} {
		for _, base := range []string{"main.db", "x", "日本", strings.Repeat("n", 1500), "a-journal.db"} {
			t.Run(fmt.Sprintf("%.8s/%d entries", base, limits.Entries), func(t *testing.T) {
				if limits.Payload > 0 && len(base) > 1000 {
					t.Skip("a key that leaves no room for a value")
				}
				testNamed(t, limits, base)
			})
		}
	}
}

func testNamed(t *testing.T, limits batch.Limits, base string) {
	r := newRig(t, batch.Limits{})
	content := older(t, r, base)
	r.Reopen(t, limits)
	put := func(name string, size int64) {
		if err := r.Actor.Put(t.Context(), layout.AppendNamedFileMeta(nil, name), chunked.AppendMeta(nil, size)); err != nil {
			t.Fatal(err)
		}
		if err := r.Actor.Put(t.Context(), layout.AppendNamedFileChunk(nil, name, 0), make([]byte, 20)); err != nil {
			t.Fatal(err)
		}
	}
	put(base+"-shm", 20)
	put(base+"-wal", 0)
	seq, keys := r.Actor.Seq(), len(namedLeft(t, r.Actor))

	pinned, err := r.Store.View(t.Context(), r.Actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	view, err := vfs.OpenView(t.Context(), pinned, nil)
	if err != nil {
		t.Fatal(err)
	}
	looks := func(what string, db queryer) {
		t.Helper()
		if got := contentOf(t, db); got != content {
			t.Errorf("%s: the database holds %.60s, want %.60s", what, got, content)
		}
		intact(t, db)
	}
	looks("view", view)
	db := r.open(t, nil)
	looks("owner", db)
	if got := r.Actor.Seq(); got != seq {
		t.Errorf("reading made %d commits", got-seq)
	}
	if got := len(namedLeft(t, r.Actor)); got != keys {
		t.Errorf("reading left %d keys of the older form of %d", got, keys)
	}

	reader := oneConn(t, db)
	exec(t, reader, "PRAGMA cache_size=0")
	exec(t, reader, "begin")
	looks("reader before", reader)
	exec(t, db, "insert into t(b) values ('new')")
	if left := namedLeft(t, r.Actor); len(left) > 0 {
		t.Errorf("after the first write %d keys of the older form are left: %.200q", len(left), left)
	}
	looks("reader after", reader)
	looks("view after", view)
	exec(t, reader, "commit")
	rig.Exact(t, r.Actor)
	content = contentOf(t, db)
	if err := errors.Join(reader.Close(), view.Close(), pinned.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	r.Reopen(t, limits)
	db = r.open(t, nil)
	looks("again", db)
	exec(t, db, "update t set b = randomblob(500)")
	exec(t, db, "vacuum")
	intact(t, db)
	rig.Exact(t, r.Actor)
}

// TestNamedRefused: what can't be taken over says so, and is left alone.
func TestNamedRefused(t *testing.T) {
	for _, tt := range []struct {
		files map[string]int64
		words []string
	}{
		{map[string]int64{"one.db": 0, "two.db": 4096}, []string{`"one.db"`, `"two.db"`}},
		{map[string]int64{"a": 4096, "a-wal": 32}, []string{`"a"`, "write-ahead log", `"a-wal"`}},
	} {
		r := newRig(t, batch.Limits{})
		for name, size := range tt.files {
			if err := r.Actor.Put(t.Context(), layout.AppendNamedFileMeta(nil, name), chunked.AppendMeta(nil, size)); err != nil {
				t.Fatal(err)
			}
		}
		seq := r.Actor.Seq()
		_, err := vfs.Open(t.Context(), r.Actor, nil)
		if !errors.Is(err, vfs.ErrUnsupported) {
			t.Fatalf("%v: %v, want ErrUnsupported", tt.files, err)
		}
		for _, w := range tt.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q doesn't say %s", err, w)
			}
		}
		if r.Actor.Seq() != seq {
			t.Errorf("%v: something was written", tt.files)
		}
	}
}

// TestNamedLeftover: beside a database of today's form, chunks without a file are
// collected, and another file is left alone.
func TestNamedLeftover(t *testing.T) {
	r := newRig(t, batch.Limits{})
	db, err := vfs.Open(t.Context(), r.Actor, nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, db, "create table t(a, b)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var b batch.Batch
	for _, name := range []string{"gone", "gone-journal", "kept"} {
		for i := range uint32(3) {
			b.Put(layout.AppendNamedFileChunk(nil, name, i<<20), []byte("some"))
		}
	}
	b.Put(layout.AppendNamedFileMeta(nil, "kept"), chunked.AppendMeta(nil, 4096))
	other := append([]byte{actorstore.NamespaceSQLite, 1}, "other\x01\x02\x03"...)
	b.Put(other, []byte("of no known form"))
	if err := r.Actor.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	db = r.open(t, nil)
	exec(t, db, "insert into t values (1, 2)")
	left := namedLeft(t, r.Actor)
	if want := "[sqlite/named/metadata/kept sqlite/named/chunks/kept/0 sqlite/named/chunks/kept/1048576 sqlite/named/chunks/kept/2097152]"; fmt.Sprint(left) != want {
		t.Errorf("left are %s, want %s", left, want)
	}
	if _, err := r.Actor.Get(t.Context(), other, nil); err != nil {
		t.Errorf("a key of another form: %v", err)
	}
	rig.Exact(t, r.Actor)
}

// TestNamedQuota: a database that fills its quota, or more, is rewritten all the same.
func TestNamedQuota(t *testing.T) {
	for _, over := range []int64{0, 1, 50_000} {
		r := newRig(t, batch.Limits{})
		older(t, r, "x")
		r.Reopen(t, batch.Limits{Storage: r.Actor.Used() - over})
		db := r.open(t, &vfs.Options{MaxConns: 1})
		if _, err := db.ExecContext(t.Context(), "insert into t(b) values (randomblob(50000))"); err == nil || !errors.Is(db.Cause(), actorstore.ErrQuota) {
			t.Errorf("%d over: growing: %v, %v, want ErrQuota", over, err, db.Cause())
		}
		rig.Exact(t, r.Actor)
		exec(t, db, "delete from t where a < 40")
		intact(t, db)
		if left := namedLeft(t, r.Actor); len(left) > 0 {
			t.Errorf("%d over: left are %q", over, left)
		}
		rig.Exact(t, r.Actor)
	}
}

// TestNamedFault fails every engine operation of the first write once.
func TestNamedFault(t *testing.T) {
	t.Parallel()
	total := 0
	for name, point := range map[string]faultkv.Point{
		"get": faultkv.BeforeGet, "scan": faultkv.BeforeScan, "snapshot": faultkv.BeforeSnapshot,
		"commit": faultkv.BeforeCommit, "lost acknowledgement": faultkv.AfterCommit,
	} {
		t.Run(name, func(t *testing.T) {
			for nth := 1; namedFault(t, point, nth); nth++ {
				total++
			}
		})
	}
	if total < 50 {
		t.Errorf("%d faults", total)
	}
}

// namedFault is TestNamedFault for one operation, and says whether there was one.
func namedFault(t *testing.T, point faultkv.Point, nth int) bool {
	t.Helper()
	r := newRigOn(t, memkv.New(), batch.Limits{})
	content := older(t, r, "x")
	r.Reopen(t, oneBatch)
	where := fmt.Sprint("operation ", nth)
	fault := r.Engine.Fail(faultkv.Rule{Point: point, Skip: nth - 1})
	db, err := vfs.Open(t.Context(), r.Actor, &vfs.Options{MaxConns: 1})
	if err == nil {
		_, err = db.ExecContext(t.Context(), "insert into t(b) values ('new')")
	} else if !errors.Is(err, faultkv.ErrInjected) {
		t.Errorf("%s: opening: %v", where, err)
	}
	hit := fault.Hits() > 0
	fault.Remove()
	if err != nil && !hit {
		t.Errorf("%s: %v, without a fault", where, err)
	}
	if db != nil {
		if err != nil && !errors.Is(db.Cause(), faultkv.ErrInjected) {
			t.Errorf("%s: %v; its cause is %v", where, err, db.Cause())
		}
		if err := db.Close(); err != nil {
			t.Errorf("%s: closing: %v", where, err)
		}
	}
	r.Reopen(t, oneBatch)
	again, openErr := vfs.Open(t.Context(), r.Actor, nil)
	if openErr != nil {
		t.Fatalf("%s: opening again: %v", where, openErr)
	}
	got := contentOf(t, again)
	if added := strings.HasPrefix(got, "62 "); got != content && !added || err == nil && !added {
		t.Errorf("%s: %v; the database holds %.60s", where, err, got)
	}
	exec(t, again, "delete from t")
	intact(t, again)
	if left := namedLeft(t, r.Actor); len(left) > 0 {
		t.Errorf("%s: left are %q", where, left)
	}
	rig.Exact(t, r.Actor)
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	return hit
}
