package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A new actor can be named by its id, and an interrupt leaves none.
func TestFork(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "music", "k", "v")
	id := actorstore.NewID()
	must(t, "fork", "data", "music", "id:"+id.String())
	if got := must(t, "get", "data", "id:"+id.String(), "k"); got != "v" {
		t.Errorf("the fork has %q", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if r := program(over, strings.NewReader(""), "fork", "data", "music", "other"); r.code != serving.ExitFailed ||
		r.stderr != "greenroom: interrupted\n" {
		t.Errorf("status %d, %s", r.code, r.stderr)
	}
	if got := must(t, "check", "data"); got != "2 actors, 2 keys, no problems\n" {
		t.Errorf("check: %s", got)
	}
}

// A limit that was lowered since is told in a sentence.
func TestForkTooLarge(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "music", "k", "a value of some bytes")
	var stderr strings.Builder
	e := &env{
		stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr, getenv: func(string) string { return "" },
		signals: &serving.Signals{End: func() {}}, limits: batch.Limits{Storage: 10},
	}
	code := run(t.Context(), e, []string{"fork", "data", "music", "other"})
	if want := "greenroom: the actor does not fit: it has more than the 10 bytes that an actor may store here\n"; code != serving.ExitFailed || stderr.String() != want {
		t.Errorf("status %d, %s", code, stderr.String())
	}
}

// What is left of a fork that was cut off is a note of check, and the next fork
// takes its place.
func TestForkCutOff(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "put", "data", "music", "a", "1")
	must(t, "put", "data", "music", "b", "2")
	forkCutOff(t, "data", "music", "rehearsal", "crashed")

	r := program(t.Context(), strings.NewReader(""), "check", "crashed")
	id := actorstore.IDFromName("rehearsal").String()
	want := "note: id:" + id + ": head: a fork to this actor isn't complete; who opens the actor next removes its 5 bytes\n" +
		"1 actor, 2 keys, no problems, 1 unfinished\n"
	if r.code != serving.ExitOK || r.stdout != want {
		t.Errorf("check: status %d, %s%s\nwant %s", r.code, r.stdout, r.stderr, want)
	}
	if got := must(t, "ls", "crashed"); strings.Contains(got, id) {
		t.Errorf("ls shows it:\n%s", got)
	}
	if r := program(t.Context(), strings.NewReader(""), "get", "crashed", "rehearsal", "a"); r.code != serving.ExitFailed {
		t.Errorf("get: %s", r.stdout)
	}
	must(t, "fork", "crashed", "music", "rehearsal")
	if got := must(t, "get", "crashed", "rehearsal", "b"); got != "2" {
		t.Errorf("the fork has %q", got)
	}
	if got := must(t, "check", "crashed"); got != "2 actors, 4 keys, no problems\n" {
		t.Errorf("check: %s", got)
	}
}

// forkCutOff forks an actor in sub-batches of one key, and copies the store after the
// first, as a crash would leave it.
func forkCutOff(t *testing.T, url, actor, name, crashed string) {
	t.Helper()
	opts := greenroom.Options{MustExist: true, Limits: batch.Limits{Entries: 1}}
	err := serving.WithStore(t.Context(), url, opts, func(s *storeurl.Store) error {
		from, err := s.Lower().View(t.Context(), actorstore.IDFromName(actor))
		if err != nil {
			return err
		}
		_, err = s.Lower().Fork(t.Context(), from.Snapshot, &actorstore.ForkOptions{Name: name, Progress: func(int64) {
			if _, err := os.Stat(crashed); errors.Is(err, fs.ErrNotExist) {
				// Not a copy of the files, some of which go while it is made.
				if err := s.Engine().(txn.Transactor).Checkpoint(t.Context(), crashed); err != nil {
					t.Error(err)
				}
			}
		}})
		return errors.Join(err, from.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}
