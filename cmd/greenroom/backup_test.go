package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// lineages returns the lineages of a backup, as backup ls has them.
func lineages(t *testing.T, dest string, flags ...string) (lines []struct {
	Lineage         int
	First, Last     string
	Bases, Segments int
}) {
	t.Helper()
	out := must(t, append([]string{"backup", "ls", dest, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &lines); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestBackupBar tests that reading a backup draws a bar.
func TestBackupBar(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "one")
	must(t, "backup", "data", "bk")
	var bar strings.Builder
	e := &env{stdout: io.Discard, stderr: io.Discard, progress: &bar, getenv: func(string) string { return "" }, signals: &serving.Signals{End: func() {}}}
	if code := run(t.Context(), e, []string{"backup", "verify", "bk"}); code != serving.ExitOK || !strings.Contains(bar.String(), "% [") || !strings.HasSuffix(bar.String(), clearLine) {
		t.Errorf("status %d, and %q", code, bar.String())
	}
}

// TestBackup tests that a store is backed up when nothing has it open, and that it and its actors are restored as of each state.
func TestBackup(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "one")
	must(t, "backup", "data", "bk")
	first := lineages(t, "bk")[0].Last
	must(t, "put", "data", "lobby", "k", "two")
	must(t, "sql", "data", "room", "create table t(a); insert into t values(42)")
	out := must(t, "backup", "data", "bk")
	lines := lineages(t, "bk")
	if !strings.Contains(out, "stored 1 objects") || !strings.Contains(out, "the state "+lines[0].Last+" is in bk") {
		t.Errorf("the second backup: %s", out)
	}
	if len(lines) != 1 || lines[0].Bases != 1 || lines[0].Segments != 1 {
		t.Errorf("%+v", lines)
	}
	out = must(t, "restore", "bk", "last")
	if !strings.Contains(out, "2 actors") || !strings.Contains(out, "no problems") || !strings.Contains(out, "restored the state "+lines[0].Last) {
		t.Errorf("restore: %s", out)
	}
	must(t, "restore", "bk", "first", "--at", first)
	for _, c := range []struct{ store, want string }{{"first", "one"}, {"last", "two"}} {
		if got := must(t, "get", c.store, "lobby", "k"); got != c.want {
			t.Errorf("%s has %q", c.store, got)
		}
	}
	must(t, "drop", "data", "room", "--yes")
	must(t, "restore", "bk", "data", "--actor", "room", "--as", "room.old")
	if got := must(t, "sql", "data", "room.old", "select a from t"); got != "42\n" {
		t.Errorf("the restored actor has %q", got)
	}
	if r := program(t.Context(), strings.NewReader(""), "restore", "bk", "data", "--actor", "room", "--as", "room.older", "--at", first); r.code == serving.ExitOK {
		t.Error("an actor was restored of a time before it was there")
	}
	if out := must(t, "backup", "verify", "bk", "--restore"); !strings.Contains(out, " 0 problems") || !strings.Contains(out, "no problems") {
		t.Errorf("verify: %s", out)
	}
	must(t, "restore", "bk", "data", "--actor", "room")
	if r := program(t.Context(), strings.NewReader(""), "restore", "bk", "data", "--actor", "room"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "there is an actor room already") {
		t.Errorf("restored again: %+v", r)
	}
	must(t, "backup", "gc", "bk", "--erase", "room")
	if r := program(t.Context(), strings.NewReader(""), "restore", "bk", "data", "--actor", "room", "--as", "room.oldest"); r.code == serving.ExitOK {
		t.Error("an actor was restored that was erased")
	}
	if r := program(t.Context(), strings.NewReader(""), "backup", "gc", "bk", "--erase", "room"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "nothing of the actor room") {
		t.Errorf("erased again: %+v", r)
	}
	must(t, "backup", "gc", "bk", "--keep", "1ns")
	must(t, "restore", "bk", "again")
	if r := program(t.Context(), strings.NewReader(""), "backup", "first", "bk"); r.code != serving.ExitOK {
		t.Errorf("a store that was restored can't go on: %s", r.stderr)
	}
	must(t, "put", "other", "lobby", "k", "v")
	if r := program(t.Context(), strings.NewReader(""), "backup", "other", "bk"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "--take-over") {
		t.Errorf("another store: %+v", r)
	}
	must(t, "backup", "other", "bk", "--take-over")
	must(t, "backup", "other", "bk2")
	if r := program(t.Context(), strings.NewReader(""), "backup", "other", "bk"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "earlier backups of this store") || !strings.Contains(r.stderr, "--take-over") {
		t.Errorf("a destination of before: %+v", r)
	}
	must(t, "backup", "other", "bk", "--take-over")
	must(t, "backup", "gc", "bk", "--keep", "0s")
	if lines := lineages(t, "bk"); len(lines) != 1 {
		t.Errorf("of what is older than nothing it keeps %+v", lines)
	}
}

// TestBackupRefuses tests what is refused before anything is stored.
func TestBackupRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "v")
	if err := os.WriteFile("file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"backup data data/inside", "one within the other"},
		{"backup data .", "one within the other"},
		{"backup data ftp://backups/data", "DEST is a folder or s3://"},
		{"backup data s3://b/p", "not the URL of a bucket"},
		{"backup data file/bk", "not a directory"},
		{"backup data bk --keep 0s", "longer than 0"},
		{"backup ls gs://backups/data", "DEST is a folder or s3://"},
		{"backup gc bk --erase=", "--erase takes the name"},
		{"host data --demo --listen 127.0.0.1:0 --backup bk --backup-keep 0s", "longer than 0"},
		{"host data --demo --listen 127.0.0.1:0 --backup bk --backup-every -1s", "longer than 0"},
		{"backup mem: bk", "for a store in a directory"},
		{"backup nowhere bk", "there is no store"},
		{"backup data bk --recipients data", "--recipients takes --key"},
		{"host data --demo --listen 127.0.0.1:0 --backup data/inside", "one within the other"},
		{"restore bk new --at yesterday", "there are no backups"},
	} {
		r := program(t.Context(), strings.NewReader(""), strings.Fields(c.args)...)
		if r.code == serving.ExitOK || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if _, err := os.Stat("bk"); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
}

// TestBackupDamaged tests that damage of each object is found, and that nothing is made of it.
func TestBackupDamaged(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "one")
	must(t, "backup", "data", "bk")
	must(t, "put", "data", "lobby", "k", "two")
	must(t, "backup", "data", "bk")
	n := 0
	err := filepath.WalkDir("bk", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "table") && !strings.Contains(path, "line"+string(filepath.Separator)) {
			return err
		}
		n++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, bad := range [][]byte{data[:len(data)/2], append(data[:len(data)-1:len(data)-1], data[len(data)-1]^1), nil} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				return err
			}
			if r := program(t.Context(), strings.NewReader(""), "backup", "verify", "bk"); r.code != serving.ExitFailed || !strings.Contains(r.stdout, "damaged: ") {
				t.Errorf("%s, %d bytes of %d: verify: %+v", path, len(bad), len(data), r)
			}
			if r := program(t.Context(), strings.NewReader(""), "restore", "bk", "new"); r.code == serving.ExitOK {
				t.Errorf("%s, %d bytes of %d: it was restored", path, len(bad), len(data))
			}
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || n < 3 {
		t.Fatal(n, err)
	}
	if left, err := filepath.Glob("new*"); err != nil || left != nil {
		t.Errorf("there is %q, %v", left, err)
	}
	must(t, "restore", "bk", "new")
}

// TestBackupInUse tests what is said of a store that a host has open which doesn't back it up.
func TestBackupInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	p := startHost(t, "", "data", "--demo")
	r := program(t.Context(), strings.NewReader(""), "backup", "data", "s3://backups/data")
	for _, want := range []string{fmt.Sprintf("the store data is in use by process %d", p.cmd.Process.Pid), "start it with --backup s3://backups/data"} {
		if r.code == serving.ExitOK || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "lets no tools in") {
			t.Errorf("want %q: %+v", want, r)
		}
	}
}

// TestBackupReads tests that what reads a backup makes nothing in its folder, and needs no right to.
func TestBackupReads(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "lobby", "k", "one")
	must(t, "backup", "data", "bk")
	if err := errors.Join(os.RemoveAll(filepath.Join("bk", ".unfinished")), os.Chmod("bk", 0o500)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod("bk", 0o700) })
	must(t, "backup", "ls", "bk")
	must(t, "backup", "verify", "bk", "--restore")
	must(t, "restore", "bk", "new")
	must(t, "restore", "bk", "data", "--actor", "lobby", "--as", "lobby.old")
	if _, err := os.Stat(filepath.Join("bk", ".unfinished")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// testIdentity and otherIdentity are of age, and keep no secret.
const (
	testIdentity  = "AGE-SECRET-KEY-1NFZPZ4LUFGE77E8RN87V5EPS320QMVX6FCVR3G7H3LR3E6MLVMKQ530J9Y"
	otherIdentity = "AGE-SECRET-KEY-15L2KGT5MJFUS5SPLPVZWQMLX9HZHXRUX2DR20RNELCFKS7MVRTJSGVPD97"
)

// TestBackupKey tests that nothing of an encrypted backup can be read without its key.
func TestBackupKey(t *testing.T) {
	t.Chdir(t.TempDir())
	err := os.WriteFile("key", []byte("# mine\n"+testIdentity+"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "put", "data", "lobby", "k", "a secret of ours")
	must(t, "backup", "data", "bk", "--key", "key")
	must(t, "put", "data", "lobby", "k", "a secret of ours, too")
	must(t, "backup", "data", "bk", "--key", "key")
	must(t, "restore", "bk", "new", "--key", "key")
	if got := must(t, "get", "new", "lobby", "k"); got != "a secret of ours, too" {
		t.Errorf("it has %q", got)
	}
	err = filepath.WalkDir("bk", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if !strings.HasPrefix(string(data), "age-encryption.org/v1\n") {
			t.Errorf("%s isn't encrypted", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := program(t.Context(), strings.NewReader(""), "backup", "ls", "bk"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "is encrypted") {
		t.Errorf("without a key: %+v", r)
	}
	if err := os.WriteFile("other", []byte(otherIdentity), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"backup data bk", "is encrypted"}, {"backup data bk --key other", "another identity"}, {"backup ls bk --key other", "another identity"},
	} {
		if r := program(t.Context(), strings.NewReader(""), strings.Fields(c.args)...); r.code == serving.ExitOK || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	if err := os.Chmod("key", 0o644); err != nil {
		t.Fatal(err)
	}
	if r := program(t.Context(), strings.NewReader(""), "backup", "ls", "bk", "--key", "key"); r.code == serving.ExitOK || !strings.Contains(r.stderr, "0600") {
		t.Errorf("with a key that all can read: %+v", r)
	}
}

// says waits until a page says something.
func says(ctx context.Context, t *testing.T, url, what string) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !strings.Contains(fetch(t, url), what) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s doesn't say %q", url, what)
		}
	}
}

// TestHostBackup tests that a host backs up its store while it serves, restores an actor of that, says when it can't, and that what it acknowledged
// before it was killed, a lag ago, is there.
func TestHostBackup(t *testing.T) {
	t.Chdir(t.TempDir())
	p := startHost(t, "", "data", "--demo", "--backup", "bk", "--backup-every", "20ms")
	ctx := soonContext(t)
	count := func(n int) {
		t.Helper()
		for range n {
			if err := p.post(ctx, "/actors/counter/a/actions/add", 1, new(int)); err != nil {
				t.Fatal(err)
			}
		}
	}
	count(10)
	caughtUp := func() {
		t.Helper()
		says(ctx, t, p.url+"/metrics", "greenroom_backup_lag_seconds 0\n")
	}
	caughtUp()
	r := program(ctx, strings.NewReader(""), "backup", "data", "bk")
	if want := fmt.Sprintf("data is in use by process %d", p.cmd.Process.Pid); r.code == serving.ExitOK || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "which backs it up all the time") {
		t.Errorf("a backup by a command, too: %+v", r)
	}
	mark := lineages(t, "bk")[0].Last
	count(5)
	must(t, "restore", "bk", "data", "--actor", "counter/a", "--as", "counter/b", "--at", mark)
	before := undone(t, "bk", "data", "--actor", "counter/a", "--at", mark)
	count(1)
	undone(t, "bk", "data", "--actor", "counter/a", "--at", before, "--wake")
	count(1)
	caughtUp()
	p.kill()
	must(t, "restore", "bk", "new")
	for store, want := range map[string]string{"counter/a": "16", "counter/b": "10"} {
		if got := must(t, "state", "show", "new", store); !strings.Contains(got, want) {
			t.Errorf("%s: %s", store, got)
		}
	}
	if err := os.RemoveAll("bk"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("bk", nil, 0o600); err != nil { // no folder
		t.Fatal(err)
	}
	p = startHost(t, "", "data", "--demo", "--backup", "bk", "--backup-every", "20ms")
	count(5)
	says(ctx, t, p.url+"/readyz", "degraded")
	if page := fetch(t, p.url+"/metrics"); !strings.Contains(page, "greenroom_backup_failing 1\n") {
		t.Error("the metrics don't say that it fails")
	}
}

// undone has an actor be what it was, and returns the bookmark of what it had before.
func undone(t *testing.T, args ...string) string {
	t.Helper()
	out := must(t, append([]string{"restore", "--undo"}, args...)...)
	_, before, ok := strings.Cut(strings.TrimSpace(out), "; before, it was --at ")
	if _, err := archive.ParseBookmark(before); !ok || err != nil {
		t.Fatalf("restore --undo says %q, %v", out, err)
	}
	return before
}

// TestUndo tests that an actor of a store that no process has open becomes what it was, with what was never backed up kept before.
func TestUndo(t *testing.T) {
	t.Chdir(t.TempDir())
	put := func(value string) { must(t, "put", "data", "room", "key", value) }
	wants := func(want string) {
		t.Helper()
		if got := must(t, "get", "data", "room", "key"); strings.TrimSpace(got) != want {
			t.Errorf("the actor has %q, want %q", got, want)
		}
	}
	put("one")
	must(t, "backup", "data", "bk")
	mark := lineages(t, "bk")[0].Last
	put("two")
	before := undone(t, "bk", "data", "--actor", "room", "--at", mark)
	wants("one")
	undone(t, "bk", "data", "--actor", "room", "--at", before)
	wants("two")
	must(t, "drop", "data", "room", "--yes")
	undone(t, "bk", "data", "--actor", "room", "--at", mark)
	wants("one")
	// A time is looked for in what the store has by then, and not in what was backed up before.
	put("three")
	if out := must(t, "restore", "--undo", "bk", "data", "--actor", "room", "--at", "0s"); strings.Contains(out, mark) {
		t.Errorf("it went back to %s: %s", mark, out)
	}
	wants("three")
	must(t, "restore", "bk", "again", "--at", before)
	if got := must(t, "get", "again", "room", "key"); strings.TrimSpace(got) != "two" {
		t.Errorf("the actor had %q", got)
	}
	must(t, "put", "other", "room", "key", "x")
	for _, refused := range [][2]string{
		{"bk data --actor room --undo", "takes --at"},
		{"bk data --actor room --undo --as x --at 1m", "no --as"},
		{"bk data --undo --at 1m", "are for --actor"},
		{"bk data --wake", "are for --actor"},
		{"bk data --actor nobody --undo --at " + mark, "there was no actor nobody in the state"},
		{"bk other --actor room --undo --at " + mark, "another store"},
	} {
		r := program(t.Context(), strings.NewReader(""), append([]string{"restore"}, strings.Fields(refused[0])...)...)
		if r.code == serving.ExitOK || !strings.Contains(r.stderr, refused[1]) || strings.Contains(r.stderr, "take-over") {
			t.Errorf("restore %s: status %d, %s", refused[0], r.code, r.stderr)
		}
	}
}
