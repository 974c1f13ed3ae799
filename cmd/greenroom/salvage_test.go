package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/queue"
)

// A wreck is a store with actors of three kinds, of which copies are damaged.
type wreck struct {
	t      *testing.T
	dir    string              // the store: as a crash has left it, or closed
	states map[string][]string // of each actor, as they were acknowledged
}

// newWreck makes a store.
func newWreck(t *testing.T, closed bool) *wreck {
	t.Helper()
	w := &wreck{t, filepath.Join(t.TempDir(), "data"), map[string][]string{}}
	from := filepath.Join(t.TempDir(), "data")
	store, err := greenroom.Open(t.Context(), from, nil)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(tx *greenroom.Tx, n int) error{
		"keys": func(tx *greenroom.Tx, n int) error {
			return tx.Put(fmt.Appendf(nil, "k%d", n), []byte(strings.Repeat("v", 3000)))
		},
		"queue": func(tx *greenroom.Tx, n int) error {
			_, err := tx.Enqueue(queue.Send{Name: "m", Body: n})
			return err
		},
		"sql": func(tx *greenroom.Tx, n int) error {
			_, err := tx.Exec("create table if not exists t(a integer primary key, b)")
			if err == nil {
				_, err = tx.Exec("insert into t(b) values (randomblob(2000))")
			}
			return err
		},
	}
	actors := map[string]*greenroom.Actor{}
	for n := range 8 {
		for kind, do := range kinds {
			if n%4 == 3 && kind != "keys" {
				continue // these have fewer
			}
			if actors[kind] == nil {
				if actors[kind], err = store.Actor(t.Context(), kind, nil); err != nil {
					t.Fatal(err)
				}
				w.states[kind] = []string{""}
			}
			err := actors[kind].Update(t.Context(), func(tx *greenroom.Tx) error {
				return errors.Join(do(tx, n), tx.Put([]byte("n"), fmt.Append(nil, n)))
			})
			if err != nil {
				t.Fatal(err)
			}
			err = store.View(t.Context(), kind, func(v *greenroom.View) error {
				w.states[kind] = append(w.states[kind], stateOf(t, v))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	// Of the last record of the log nothing says whether a crash or damage has cut it off: so it is one that changes nothing.
	err = actors["keys"].Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("n"), []byte("7")) })
	if err != nil {
		t.Fatal(err)
	}
	if !closed {
		w.copyTo(from, w.dir)
	}
	for _, a := range actors {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if closed {
		w.copyTo(from, w.dir)
	}
	return w
}

// stateOf returns what an actor has, as a text.
func stateOf(t *testing.T, v *greenroom.View) string {
	t.Helper()
	var b strings.Builder
	for e, err := range v.List(greenroom.ListOptions{}) {
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s=%.9s ", e.Key, e.Value)
	}
	rows := ""
	if err := v.QueryRow("select count(*) || sum(length(b)) || hex(b) from t").Scan(&rows); err != nil {
		rows = "none"
	}
	for m, err := range v.Messages(nil) {
		fmt.Fprintf(&b, "%d %v ", m.ID, err)
	}
	return b.String() + rows
}

func (w *wreck) copyTo(from, to string) {
	w.t.Helper()
	if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
		w.t.Fatal(err)
	}
}

// files returns the names of the store's files.
func (w *wreck) files() (names []string) {
	w.t.Helper()
	err := fs.WalkDir(os.DirFS(w.dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path != "LOCK" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return names
}

// log returns the name of the file of the log that has the most.
func (w *wreck) log() (name string) {
	w.t.Helper()
	for _, file := range w.files() {
		if strings.HasSuffix(file, ".wal") && (name == "" || len(strings.Trim(string(read(w.t, filepath.Join(w.dir, file))), "\x00")) > 1000) {
			name = file
		}
	}
	return name
}

// salvage damages a file of a copy of the store, and salvages that: what is called whole is, what isn't is in a state that the actor
// was in, unless the check says what is wrong with it, and the copy is as it was. It returns what the command has left.
func (w *wreck) salvage(what, name string, damage func(path string, b []byte) error) result {
	w.t.Helper()
	old, to := filepath.Join(w.t.TempDir(), "old"), filepath.Join(w.t.TempDir(), "new")
	w.copyTo(w.dir, old)
	path := filepath.Join(old, name)
	if err := damage(path, read(w.t, path)); err != nil {
		w.t.Fatal(err)
	}
	before := sums(w.t, old+string(filepath.Separator))
	r := program(w.t.Context(), strings.NewReader(""), "salvage", old, to)
	if sums(w.t, old+string(filepath.Separator)) != before {
		w.t.Errorf("%s %s: the old store is changed", what, name)
	}
	if r.code > serving.ExitFailed || r.stderr != "" {
		w.t.Errorf("%s %s: %s", what, name, report(r))
		return r
	}
	states := map[string]string{}
	if r.stderr == "" {
		store, err := greenroom.Open(w.t.Context(), to, &greenroom.Options{ReadOnly: true})
		if err != nil {
			w.t.Fatal(err)
		}
		for kind := range w.states {
			err := store.View(w.t.Context(), kind, func(v *greenroom.View) error {
				states[kind] = stateOf(w.t, v)
				return nil
			})
			if err != nil {
				states[kind] = ""
			}
		}
		if err := store.Close(); err != nil {
			w.t.Fatal(err)
		}
	}
	for kind, all := range w.states {
		at := slices.Index(all, states[kind])
		gaps := strings.Contains(r.stdout, "tables") || strings.Contains(r.stdout, "check")
		wholly := strings.Contains(r.stdout, "\n"+kind+": whole\n") || strings.HasPrefix(r.stdout, kind+": whole\n")
		if at < 0 && !gaps || wholly && at != len(all)-1 || r.code == serving.ExitOK && !wholly {
			w.t.Errorf("%s %s: %s is in state %d of %d, %.300s, and the command says %s", what, name, kind, at, len(all), states[kind], report(r))
		}
	}
	return r
}

// flip changes a byte at a place.
func flip(at int) func(path string, b []byte) error {
	return func(path string, b []byte) error {
		b[at] ^= 1
		return os.WriteFile(path, b, 0o600)
	}
}

// TestSalvageLog damages the log at many places, cuts it off there, and removes it.
func TestSalvageLog(t *testing.T) {
	w := newWreck(t, false)
	name := w.log()
	used := len(strings.TrimRight(string(read(t, filepath.Join(w.dir, name))), "\x00"))
	places, lost := testkit.Pick(2, 6, 400), 0
	for i := range places {
		at := i * used / places
		if r := w.salvage(fmt.Sprint("a byte changed at ", at), name, flip(at)); strings.Contains(r.stdout, ": lost: ") {
			lost++
		}
		if i%4 == 1 {
			w.salvage(fmt.Sprint("cut off at ", at), name, func(path string, _ []byte) error { return os.Truncate(path, int64(at)) })
		}
	}
	if places > 2 && lost < places/2 {
		t.Errorf("of %d damaged places %d cost an actor something", places, lost)
	}
	w.salvage("without", name, func(path string, _ []byte) error { return os.Remove(path) })
	w.salvage("without the folder of", name, func(path string, _ []byte) error { return os.RemoveAll(filepath.Dir(path)) })
}

// TestSalvageTables damages the tables of a store that was closed, at many places.
func TestSalvageTables(t *testing.T) {
	w := newWreck(t, true)
	if r := w.salvage("nothing done to", w.files()[0], func(string, []byte) error { return nil }); r.code != serving.ExitOK || !strings.HasSuffix(r.stdout, "3 actors whole, 0 not\n") {
		t.Errorf("of a whole store: %s", report(r))
	}
	for _, name := range w.files() {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		size, places := len(read(t, filepath.Join(w.dir, name))), testkit.Pick(2, 8, 300)
		for i := range places {
			at := (2*i + 1) * size / places / 2
			w.salvage(fmt.Sprint("a byte changed at ", at), name, flip(at))
		}
	}
}

// TestCheckTables damages the tables of a store that was closed, at many places, and checks that: the check comes to its end, and
// an actor that it calls whole is.
func TestCheckTables(t *testing.T) {
	w := newWreck(t, true)
	some := 0
	for _, name := range w.files() {
		if filepath.Ext(name) != ".sst" {
			continue
		}
		size, places := len(read(t, filepath.Join(w.dir, name))), testkit.Pick(6, 12, 300)
		for i := range places {
			if whole := w.check(name, (2*i+1)*size/places/2); whole > 0 && whole < len(w.states) {
				some++
			}
		}
	}
	if some == 0 {
		t.Error("no damage has spared some actors, and not others")
	}
}

// check changes a byte of a file of a copy of the store, checks that, and returns of how many actors the check says that they are whole.
func (w *wreck) check(name string, at int) (whole int) {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "data")
	w.copyTo(w.dir, dir)
	path := filepath.Join(dir, name)
	if err := flip(at)(path, read(w.t, path)); err != nil {
		w.t.Fatal(err)
	}
	r := program(w.t.Context(), strings.NewReader(""), "check", dir)
	switch opened := r.stdout != ""; {
	case r.code == serving.ExitOK: // nothing has read that byte
		return 0
	case r.code != serving.ExitFailed || opened == (r.stderr != "") || opened && !strings.Contains(r.stdout, "problem"):
		w.t.Errorf("a byte changed at %d of %s: %s", at, name, report(r))
	}
	for kind, all := range w.states {
		if !strings.Contains("\n"+r.stdout, "\n"+kind+": whole\n") {
			continue
		}
		whole++
		if state := w.stateIn(dir, kind); state != all[len(all)-1] {
			w.t.Errorf("a byte changed at %d of %s: %s is called whole, and is %.300s", at, name, kind, state)
		}
	}
	return whole
}

// stateIn returns what an actor has in a store.
func (w *wreck) stateIn(dir, actor string) (state string) {
	w.t.Helper()
	store, err := greenroom.Open(w.t.Context(), dir, &greenroom.Options{ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	err = store.View(w.t.Context(), actor, func(v *greenroom.View) error {
		state = stateOf(w.t, v)
		return nil
	})
	if err := errors.Join(err, store.Close()); err != nil {
		w.t.Fatal(err)
	}
	return state
}

// TestSalvageManifest loses what says which tables a store has, of stores that were closed, or not: every actor is as it was acknowledged, and the old store isn't changed.
func TestSalvageManifest(t *testing.T) {
	for _, lost := range [][]string{
		{"MANIFEST-", "marker.manifest."}, {"MANIFEST-"}, {"marker.manifest."}, {"marker.format-version."}, {"OPTIONS-"},
		{"MANIFEST-", "marker.", "OPTIONS-"},
	} {
		for _, closed := range []bool{true, false} {
			w := newWreck(t, closed)
			removed := map[string]bool{}
			for _, name := range w.files() {
				for _, prefix := range lost {
					if strings.HasPrefix(name, prefix) {
						removed[prefix] = true
						succeed(t, os.Remove(filepath.Join(w.dir, name)))
					}
				}
			}
			if len(removed) != len(lost) {
				t.Fatalf("of %q there were %v", lost, removed)
			}
			w.salvageAll(fmt.Sprintf("closed %v, without %q", closed, lost))
		}
	}
}

// salvageAll salvages a store that has lost nothing but its list of tables.
func (w *wreck) salvageAll(what string) {
	w.t.Helper()
	before := sums(w.t, w.dir+string(filepath.Separator))
	parent := w.t.TempDir()
	r := program(w.t.Context(), strings.NewReader(""), "salvage", w.dir, filepath.Join(parent, "new"))
	if r.code != serving.ExitFailed || r.stderr != "" || !strings.HasSuffix(r.stdout, "3 actors whole, 0 not\n") || !strings.Contains(r.stdout, "keys: whole if all tables are there") {
		w.t.Errorf("%s: %s", what, report(r))
		return
	}
	for kind, all := range w.states {
		if state := w.stateIn(filepath.Join(parent, "new"), kind); state != all[len(all)-1] {
			w.t.Errorf("%s: %s is %.300s", what, kind, state)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 || sums(w.t, w.dir+string(filepath.Separator)) != before {
		w.t.Errorf("%s: left %v, %v, or the old store is changed", what, left, err)
	}
}
