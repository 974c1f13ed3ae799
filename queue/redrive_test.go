package queue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/part"
	"github.com/greenroomdb/greenroom/queue"
)

// A letters is an actor whose queue makes a dead letter of each message that is given back.
type letters struct {
	t      *testing.T
	engine *faultkv.Engine
	limits batch.Limits
	opts   queue.Options
	q      *queue.Queue
	close  func()
}

func newLetters(t *testing.T, opts queue.Options, limits batch.Limits) *letters {
	t.Helper()
	opts.MaxReceive, opts.Env = 1, part.Env{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	l := &letters{t: t, engine: faultkv.New(memkv.New()), limits: limits, opts: opts}
	l.open()
	t.Cleanup(func() { l.close() })
	return l
}

func (l *letters) open() {
	l.t.Helper()
	s, err := actorstore.Open(context.Background(), l.engine, &actorstore.Options{Limits: l.limits})
	testkit.Must(l.t, err)
	a, err := s.Named(context.Background(), "a", nil)
	testkit.Must(l.t, err)
	l.q, err = queue.Open(context.Background(), a, &l.opts)
	testkit.Must(l.t, err)
	q := l.q
	l.close = func() { _, _, _ = q.Close(), a.Close(), s.Close() }
}

// reopen is a restart, also of an engine that was broken.
func (l *letters) reopen() {
	l.t.Helper()
	l.close()
	l.engine.Heal()
	l.open()
}

// bury makes dead letters of new messages.
func (l *letters) bury(names ...string) {
	l.t.Helper()
	for i, name := range names {
		_, err := l.q.Enqueue(l.t.Context(), queue.Send{Name: name, Body: i})
		testkit.Must(l.t, err)
		l.giveBack(name)
	}
}

func (l *letters) giveBack(names ...string) {
	l.t.Helper()
	ms, err := l.q.TryReceive(l.t.Context(), &queue.ReceiveOptions{Names: names})
	if testkit.Must(l.t, err); len(ms) != 1 {
		l.t.Fatalf("%d messages %q", len(ms), names)
	}
	testkit.Must(l.t, ms[0].Nack(l.t.Context(), 0, nil))
}

// holds holds how many messages there are under each name.
func (l *letters) holds(when, want string) {
	l.t.Helper()
	var got []string
	for _, n := range l.q.Stats().Names {
		got = append(got, fmt.Sprintf("%s:%d", n.Name, n.Ready+n.Leased+n.Delayed))
	}
	if strings.Join(got, " ") != want {
		l.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

// TestRedrive: dead letters are messages again, of the names and up to the number that were asked for, with what they had and all
// their attempts, also where the queue is full, and after a restart.
func TestRedrive(t *testing.T) {
	for _, tt := range []struct {
		what  string
		names []string // of the queue; nil: any
		opts  *queue.RedriveOptions
		moved int
		err   error
		want  string
	}{
		{"all", nil, nil, 4, nil, "a:2 b:1 c:1"},
		{"a name", nil, &queue.RedriveOptions{Names: []string{"a", "x"}}, 2, nil, "a:2 b.dlq:1 c.dlq:1"},
		{"up to a limit", nil, &queue.RedriveOptions{Limit: 3}, 3, nil, "a:2 b:1 c.dlq:1"},
		{"below a limit", nil, &queue.RedriveOptions{Names: []string{"b"}, Limit: 3}, 1, nil, "a.dlq:2 b:1 c.dlq:1"},
		{"known names", []string{"a", "b"}, nil, 3, nil, "a:2 b:1 c.dlq:1"},
		{"a name that isn't known", []string{"a", "b"}, &queue.RedriveOptions{Names: []string{"c"}}, 0, queue.ErrUnknownName, "a.dlq:2 b.dlq:1 c.dlq:1"},
		{"a limit below 0", nil, &queue.RedriveOptions{Limit: -1}, 0, queue.ErrInvalid, "a.dlq:2 b.dlq:1 c.dlq:1"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			l := newLetters(t, queue.Options{MaxMessages: 4}, batch.Limits{})
			l.bury("a", "b", "a", "c")
			l.opts.Names = tt.names
			l.reopen()
			n, err := l.q.Redrive(t.Context(), tt.opts)
			if n != tt.moved || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v, want %d, %v", n, err, tt.moved, tt.err)
			}
			l.holds("redriven", tt.want)
			l.reopen()
			l.holds("after a restart", tt.want)
			if n == 0 {
				return
			}
			ms, err := l.q.TryReceive(t.Context(), &queue.ReceiveOptions{Names: []string{"a", "b"}})
			var body int
			if testkit.Must(t, err); len(ms) != 1 || ms[0].Deliveries != 1 || ms[0].ID <= 8 || ms[0].Decode(&body) != nil || time.Since(ms[0].Created) > time.Hour {
				t.Errorf("got %+v, %d", ms, body)
			}
			testkit.Must(t, ms[0].Nack(t.Context(), 0, nil))
			if n, err = l.q.Redrive(t.Context(), &queue.RedriveOptions{Names: []string{ms[0].Name}, Limit: 1}); n != 1 || err != nil {
				t.Errorf("again: got %d, %v", n, err)
			}
		})
	}
}

// TestRedriveLeased: a dead letter that is in use stays one.
func TestRedriveLeased(t *testing.T) {
	l := newLetters(t, queue.Options{}, batch.Limits{})
	l.bury("a", "a")
	ms, err := l.q.TryReceive(t.Context(), &queue.ReceiveOptions{Names: []string{"a.dlq"}})
	testkit.Must(t, err)
	if n, err := l.q.Redrive(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	l.holds("redriven", "a:1 a.dlq:1")
	testkit.Must(t, ms[0].Complete(t.Context(), nil))
	l.holds("completed", "a:1")
}

// TestRedriveAtOnce: dead letters that several move at once, are messages again once each, and one of them counts each.
func TestRedriveAtOnce(t *testing.T) {
	const most = 60
	names := strings.Split(strings.Repeat("a ", most-1)+"a", " ")
	l := newLetters(t, queue.Options{}, batch.Limits{Entries: 9, AtomicBatches: 1})
	l.bury(names...)
	var all sync.WaitGroup
	var moved atomic.Int64
	for range 8 {
		all.Go(func() {
			n, err := l.q.Redrive(t.Context(), nil)
			if moved.Add(int64(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := moved.Load(); n != most {
		t.Errorf("%d are counted, want %d", n, most)
	}
	l.holds("afterwards", fmt.Sprintf("a:%d", most))
	l.reopen()
	l.holds("after a restart", fmt.Sprintf("a:%d", most))
}

// TestRedrivePages: whatever fails, and whatever a commit has room for, each message is there once, as a dead letter or again.
func TestRedrivePages(t *testing.T) {
	const most = 100
	names := strings.Split(strings.Repeat("a ", most-1)+"a", " ")
	for _, limits := range []batch.Limits{{}, {Entries: 9, AtomicBatches: 1}} {
		for stop := range 6 {
			l := newLetters(t, queue.Options{}, limits)
			l.bury(names...)
			l.engine.Tear(stop)
			n, err := l.q.Redrive(t.Context(), nil)
			torn := err != nil
			l.reopen()
			if torn {
				l.holds("torn", strings.TrimSpace(map[bool]string{true: fmt.Sprintf("a:%d ", n)}[n > 0]+fmt.Sprintf("a.dlq:%d", most-n)))
				more, err := l.q.Redrive(t.Context(), nil)
				testkit.Must(t, err)
				n += more
			}
			if n != most {
				t.Errorf("stopped after %d commits: %d messages", stop, n)
			}
			l.holds("at the end", fmt.Sprintf("a:%d", most))
		}
	}
}

// TestRedriveTooLarge: a commit that an engine refuses is tried with fewer dead letters.
func TestRedriveTooLarge(t *testing.T) {
	l := newLetters(t, queue.Options{}, batch.Limits{})
	l.bury("a", "b", "c", "d")
	fault := l.engine.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge, Times: 1})
	n, err := l.q.Redrive(t.Context(), nil)
	if n != 4 || err != nil || fault.Hits() == 0 {
		t.Errorf("got %d, %v, after %d refusals", n, err, fault.Hits())
	}
	l.holds("redriven", "a:1 b:1 c:1 d:1")
}
