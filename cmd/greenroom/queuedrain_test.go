package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/queue"
)

// newDrained returns a store with an actor that has n ready messages, and then one that is
// leased, one that is delayed and one that can't be read.
func newDrained(t *testing.T, n int) (store string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "data")
	must(t, "put", store, "shop", "k", "v")
	fill := func(ctx context.Context, a *actorstore.Actor) error {
		q, err := queue.Open(ctx, a, nil)
		if err != nil {
			return err
		}
		_, err = q.Enqueue(ctx, queue.Send{Name: "leased"})
		if err == nil {
			_, err = q.Receive(ctx, &queue.ReceiveOptions{Visibility: time.Hour})
		}
		for i := 0; i < n && err == nil; i++ {
			_, err = q.Enqueue(ctx, queue.Send{Name: "ready", Body: i})
		}
		if err == nil {
			_, err = q.Enqueue(ctx, queue.Send{Name: "delayed", Delay: time.Hour})
		}
		return errors.Join(err, q.Close(), a.Put(ctx, actorstore.LayoutGreenroom.AppendQueueMessage(nil, uint64(n+3)), []byte{4, 0, 9}))
	}
	err := ownBelow(t.Context(), target{url: store, actor: "shop"}, func(a *actorstore.Actor) error { return fill(t.Context(), a) })
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestDrain removes what is ready, page by page, and what is leased or delayed if that is
// asked for.
func TestDrain(t *testing.T) {
	const n = 2*drainPage + 17
	store := newDrained(t, n)
	r := program(t.Context(), strings.NewReader(""), "queue", "drain", store, "shop")
	if lines := strings.Split(r.stdout, "\n"); r.code != serving.ExitOK || len(lines) != n+1 || !strings.HasPrefix(lines[n-1], fmt.Sprintf("%d\tready\t", n+1)) {
		t.Errorf("status %d, %d lines", r.code, len(lines))
	}
	if want := fmt.Sprintf("%d messages drained; left: 1 delayed, 1 leased, 1 unreadable\n", n); r.stderr != want {
		t.Errorf("it says %q, want %q", r.stderr, want)
	}
	r = program(t.Context(), strings.NewReader(""), "queue", "drain", store, "shop", "--all", "--json")
	if r.code != serving.ExitOK || r.stderr != "2 messages drained; left: 1 unreadable\n" ||
		!strings.Contains(r.stdout, `"name":"leased"`) || !strings.Contains(r.stdout, `"state":"leased","deliveries":1,`) || strings.Count(r.stdout, "\n") != 2 {
		t.Errorf("%+v", r)
	}
	if got := must(t, "queue", "ls", store, "shop"); strings.Count(got, "\n") != 1 {
		t.Errorf("left: %q", got)
	}
}

// TestDrainUnwritten removes nothing that could not be written.
func TestDrainUnwritten(t *testing.T) {
	const n = 2*drainPage + 17
	store := newDrained(t, n)
	var stdout, stderr strings.Builder
	written := 0
	e := &env{stderr: &stderr, stdout: writerOf(func(b []byte) (int, error) {
		if lines := strings.Count(stdout.String()+string(b), "\n"); lines > drainPage+50 {
			return 0, errors.New("no space left")
		}
		written++
		return stdout.Write(b)
	})}
	if code := run(t.Context(), e, []string{"queue", "drain", store, "shop"}); code != serving.ExitFailed || written == 0 {
		t.Errorf("status %d after %d writes", code, written)
	}
	if got, want := stderr.String(), fmt.Sprintf("%d messages drained", drainPage); !strings.HasPrefix(got, want) || !strings.Contains(got, "no space left") {
		t.Errorf("it says %q", got)
	}
	left := must(t, "queue", "ls", store, "shop", "ready")
	if got := strings.Count(left, "\n"); got != n-drainPage {
		t.Errorf("%d messages are left, want all but the %d that were written", got, drainPage)
	}
	for line := range strings.Lines(left) {
		id, _, _ := strings.Cut(line, "\t")
		if id == "2" || id == fmt.Sprint(drainPage+1) {
			t.Errorf("message %s was drained, and is there", id)
		}
	}
}

// TestDrainFile writes to a file, which is on stable storage before a message is gone, and
// to one that is closed.
func TestDrainFile(t *testing.T) {
	store := newDrained(t, 3)
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	e := &env{stderr: &stderr, stdout: f}
	if code := run(t.Context(), e, []string{"queue", "drain", store, "shop", "--limit", "2"}); code != serving.ExitOK {
		t.Errorf("status %d, %s", code, stderr.String())
	}
	b, err := os.ReadFile(f.Name())
	if err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("the file has %q, %v", b, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if code := run(t.Context(), e, []string{"queue", "drain", store, "shop"}); code != serving.ExitFailed {
		t.Errorf("status %d", code)
	}
	if got := must(t, "queue", "ls", store, "shop", "ready"); strings.Count(got, "\n") != 1 {
		t.Errorf("left: %q", got)
	}
}

// A writerOf is a Writer of one function.
type writerOf func([]byte) (int, error)

func (w writerOf) Write(b []byte) (int, error) { return w(b) }
