package importer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/rivetkit/importer"
)

// write writes a file into a directory, and makes the folders for it.
func write(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDir(t *testing.T) {
	path := t.TempDir()
	if _, err := importer.OpenDir(path); !errors.Is(err, importer.ErrNoDriver) {
		t.Errorf("an empty directory: %v", err)
	}
	const room = "20fe92c7241f12c9"
	write(t, path, "state/"+room, unhex(t, roomState))
	write(t, path, "state/"+room+".tmp.1234", nil)
	write(t, path, "state/b", unhex(t, roomState)) // another's
	write(t, path, "state/c", make([]byte, bare.MaxSize+3))
	d, err := importer.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := d.IDs()
	if want := []string{room, "b", "c"}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%q, %v", ids, err)
	}
	if strays, err := d.Strays(ids); err != nil || len(strays) != 0 {
		t.Errorf("without databases: %q, %v", strays, err)
	}
	if has, err := d.HasDatabase(room); has || err != nil {
		t.Errorf("a database that isn't there: %v, %v", has, err)
	}
	if _, ok, err := d.Alarm(room); ok || err != nil {
		t.Errorf("an alarm that isn't there: %v, %v", ok, err)
	}
	write(t, path, "databases/"+room+".db", nil)
	write(t, path, "databases/"+room+".db-journal", nil)
	write(t, path, "databases/z.db", []byte("x"))
	write(t, path, "alarms/"+room, unhex(t, roomAlarm))
	write(t, path, "alarms/b", unhex(t, roomAlarm))
	if strays, err := d.Strays(ids); err != nil || !slices.Equal(strays, []string{"z.db"}) {
		t.Errorf("%q, %v", strays, err)
	}
	for id, want := range map[string]bool{room: false, "z": true} {
		if has, err := d.HasDatabase(id); has != want || err != nil {
			t.Errorf("database of %s: %v, %v", id, has, err)
		}
	}
	if s, err := d.State(room); err != nil || s.Name != "room" {
		t.Errorf("%+v, %v", s, err)
	}
	if at, ok, err := d.Alarm(room); err != nil || !ok || at < 0x1a203a8ad69 {
		t.Errorf("%d, %v, %v", at, ok, err)
	}
	_, _, aerr := d.Alarm("b")
	_, berr := d.State("b")
	_, cerr := d.State("c")
	for what, err := range map[string]error{"the actor": aerr, `actor "` + room: berr, "larger than": cerr} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q in it", err, what)
		}
	}
}
