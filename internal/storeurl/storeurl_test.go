package storeurl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/kv"
)

func TestParse(t *testing.T) {
	tests := []struct {
		url     string
		kind    kind
		address string
		err     error
	}{
		{"pebble:data", pebble, "data", nil},
		{"pebble:/var/lib/data", pebble, "/var/lib/data", nil},
		{"pebble:odd:name", pebble, "odd:name", nil},
		{"pebble:a%20b", pebble, "a%20b", nil},
		{"data", pebble, "data", nil},
		{"./mem:", pebble, "./mem:", nil},
		{"/srv/a:b", pebble, "/srv/a:b", nil},
		{`C:\data`, pebble, `C:\data`, nil},
		{"2024:data", pebble, "2024:data", nil},
		{"a b:c", pebble, "a b:c", nil},
		{":data", pebble, ":data", nil},
		{"mem:", memory, "", nil},
		{"postgres://user@host/db", Postgres, "postgres://user@host/db", nil},
		{"postgresql:///db", Postgres, "postgresql:///db", nil},
		{"", "", "", ErrURL},
		{"pebble:", "", "", ErrURL},
		{"mem:data", "", "", ErrURL},
		{"peble:data", "", "", ErrURL},
		{"http://host/db", "", "", ErrURL},
		{"pebble:data//a", pebble, "data//a", nil},
		{"pebble:postgres//u:secret@h/d", pebble, "postgres//u:secret@h/d", nil},
		{"./postgres//u:secret@h/d", pebble, "./postgres//u:secret@h/d", nil},
		{"../a:b@c", pebble, "../a:b@c", nil},
		{"/srv/a:b@c", pebble, "/srv/a:b@c", nil},
		{"//server/share", pebble, "//server/share", nil},
		{`C:\data@home`, pebble, `C:\data@home`, nil},
		{"C:/data@home", pebble, "C:/data@home", nil},
		{"me@home", pebble, "me@home", nil},
		{"a/b//c", pebble, "a/b//c", nil},
		{"data//a", "", "", ErrURL},
	}
	for _, test := range tests {
		kind, address, err := Parse(test.url)
		if kind != test.kind || address != test.address || !errors.Is(err, test.err) {
			t.Errorf("Parse(%q) = %q, %q, %v, want %q, %q, %v",
				test.url, kind, address, err, test.kind, test.address, test.err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(t.TempDir())
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing, mustExist := filepath.Join(dir, "missing"), greenroom.Options{MustExist: true}
	tests := []struct {
		name string
		url  string
		opts greenroom.Options
		want error
	}{
		{"missing", missing, mustExist, kv.ErrNoStore},
		{"missing, with its kind", "pebble:" + missing, mustExist, kv.ErrNoStore},
		{"read-only", missing, greenroom.Options{ReadOnly: true}, kv.ErrNoStore},
		{"memory is always new", "mem:", mustExist, kv.ErrNoStore},
		{"memory, read-only", "mem:", greenroom.Options{ReadOnly: true}, kv.ErrNoStore},
		{"a file", file, greenroom.Options{}, kv.ErrNotAStore},
		{"postgres", "postgres://user:secret@host/db?pins=0", greenroom.Options{}, ErrURL},
		{"postgres, with a slip", "postgres:user:secret@host/db", greenroom.Options{}, ErrURL},
		{"a slip in a kind", "postgress://user:secret@host/db", mustExist, ErrURL},
		{"no colon", "postgres//user:secret@host/db", greenroom.Options{}, ErrURL},
		{"no colon, a slip besides", "postgers//user:secret@host/db", greenroom.Options{}, ErrURL},
		{"no colon, password as a parameter", "postgres//host/db?password=secret", greenroom.Options{}, ErrURL},
		{"one slash", "postgres:/user:secret@host/db", greenroom.Options{}, ErrURL},
		{"one slash, no colon", "postgres/user:secret@host/db", greenroom.Options{}, ErrURL},
		{"another colon", "postgres;//user:secret@host/db", greenroom.Options{}, ErrURL},
		{"a space", " postgres://user:secret@host/db", greenroom.Options{}, ErrURL},
		{"a space, password as a parameter", " postgres://host/db?password=secret", greenroom.Options{}, ErrURL},
		{"no scheme", "//user:secret@host/db", greenroom.Options{}, ErrURL},
		{"user only", "user:secret@host/db", greenroom.Options{}, ErrURL},
		{"a short user only", "u:secret@host/db", greenroom.Options{}, ErrURL},
		{"a short scheme", "p://u:secret@host/db", greenroom.Options{}, ErrURL},
		{"an unknown scheme", "mysql://user:secret@host/db", greenroom.Options{}, ErrURL},
		{"an unknown scheme, password as a parameter", "mysql://host/db?password=secret", greenroom.Options{}, ErrURL},
		{"pebble at a server", "pebble://user:secret@host/db", greenroom.Options{}, ErrURL},
		{"mem at a server", "mem://user:secret@host/db", greenroom.Options{}, ErrURL},
		{"a password that isn't escaped", "postgres//user:sec@ret?secret@host/db", greenroom.Options{}, ErrURL},
		{"unknown kind", "peble:data", greenroom.Options{}, ErrURL},
	}
	for _, test := range tests {
		s, err := Open(t.Context(), test.url, test.opts)
		if s != nil || !errors.Is(err, test.want) {
			t.Errorf("%s: Open = %v, %v, want %v", test.name, s, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error holds the password: %v", test.name, err)
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused Open left %s behind (%v)", missing, err)
	}
	if left, err := os.ReadDir("."); len(left) > 0 || err != nil {
		t.Errorf("refused Opens left %v behind (%v)", left, err)
	}
}

func TestOpenPebble(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	write := open(t, "pebble:"+dir, greenroom.Options{})
	if _, err := Open(t.Context(), dir, greenroom.Options{MustExist: true}); !errors.Is(err, kv.ErrStoreInUse) {
		t.Errorf("second Open = %v, want %v", err, kv.ErrStoreInUse)
	}
	put(t, write)
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := write.Engine().Get(t.Context(), []byte("k"), nil); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("the engine after Close: %v, want %v", err, kv.ErrClosed)
	}

	for _, opts := range []greenroom.Options{{MustExist: true}, {ReadOnly: true}} {
		s := open(t, dir, opts)
		holds(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenMemory(t *testing.T) {
	s := open(t, "mem:", greenroom.Options{})
	put(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, url string, opts greenroom.Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores v under the user key k of the actor a.
func put(t *testing.T, s *Store) {
	t.Helper()
	a, err := s.Actor(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Put([]byte("k"), []byte("v")) }); err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// holds looks for what put has stored, by the actor's name and by its id.
func holds(t *testing.T, s *Store) {
	t.Helper()
	for _, name := range []string{"a", "id:" + actorstore.IDFromName("a").String()} {
		err := s.View(t.Context(), name, func(v *greenroom.View) error {
			got, err := v.Get([]byte("k"))
			if string(got) != "v" {
				t.Errorf("%s: got %q", name, got)
			}
			return err
		})
		if err != nil {
			t.Error(name, err)
		}
	}
}
