package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/queue"
)

// messages returns what is stored of the queue of an actor.
func (r *rig) messages(a Address) (all []queue.Stored) {
	r.Helper()
	must(r, r.Store().View(r.ctx, a.String(), func(v *greenroom.View) error {
		for m, err := range v.Messages(nil) {
			if err != nil {
				return err
			}
			all = append(all, m)
		}
		return nil
	}))
	return all
}

// TestDeadLetterTells: a message whose handler has failed as often as it may is a dead letter with the error's code and text, the
// times of the attempts, and the actor that sent it.
func TestDeadLetterTells(t *testing.T) {
	for _, tt := range []struct {
		what string
		fail func() error
		code string
		text string
	}{
		{"an error of the actor", func() error { return &Error{Code: "sold_out", Message: "There are none left."} }, "sold_out", "There are none left."},
		{"another error", func() error { return errRefused }, codeInternal, errRefused.Error()},
		{"a panic", func() error { panic("nothing works") }, "actor_failed", "host: panic: nothing works"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			kinds := talkers()
			kinds[1].Message = func(*Context, *greenroom.Message) error { return tt.fail() }
			kinds[1].MessageNames = []string{"word"} // and no dead letters
			kinds[1].Queue.MaxReceive = 3
			bubble(t, Options{}, func(r *rig) {
				start := time.Now()
				r.call(lobby, "say", "hello")
				pass(time.Minute)
				got := r.messages(ear)
				if len(got) != 1 {
					t.Fatalf("%d messages", len(got))
				}
				m, f := got[0], got[0].Failure
				if m.Name != "word.dlq" || m.Deliveries != 3 || m.From != lobby.String() || f.Code != tt.code || f.Text != tt.text {
					t.Errorf("got %+v", m)
				}
				if at := f.Attempts; len(at) != 3 || at[1].Sub(at[0]) != time.Second || at[2].Sub(at[1]) != 2*time.Second || at[0].Sub(start) > time.Second {
					t.Errorf("attempts at %v, begun at %v", at, start)
				}
			}, kinds...)
		})
	}
}

// TestPermanent: a message whose handler fails with a permanent error is a dead letter at once, and the log says which it is. It is that
// message, also if an older one has become visible while the handler ran.
func TestPermanent(t *testing.T) {
	for _, tt := range []struct {
		what  string
		older time.Duration // the delay of an older message, and how long the handler takes; 0 for none
		want  []string
	}{
		{"alone", 0, []string{"bad.dlq"}},
		{"an older one comes meanwhile", 5 * time.Second, []string{"bad.dlq"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			var log strings.Builder
			var calls []string
			kind := thing(NewAction("send", func(c *Context, _ struct{}) (_ int, err error) {
				if tt.older > 0 {
					_, err = c.Enqueue(queue.Send{Name: "good", Delay: tt.older})
				}
				if err == nil {
					_, err = c.Enqueue(queue.Send{Name: "bad"})
				}
				return 0, err
			}))
			kind.MessageNames = []string{"bad", "good"}
			kind.Message = func(_ *Context, m *greenroom.Message) error {
				calls = append(calls, m.Name)
				if m.Name == "good" {
					return nil
				}
				<-time.After(tt.older + time.Second)
				return queue.Permanent(&Error{Code: "no_such_order", Message: "There is no such order."})
			}
			bubble(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(r *rig) {
				r.call(lobby, "send", struct{}{})
				pass(time.Minute)
				var names []string
				for _, m := range r.messages(lobby) {
					names = append(names, m.Name)
					if f := m.Failure; f.Code != "no_such_order" || f.Text != "There is no such order." || len(f.Attempts) == 0 {
						t.Errorf("got %+v", m)
					}
				}
				if !slices.Equal(names, tt.want) {
					t.Errorf("after calls for %v there are %v, want %v", calls, names, tt.want)
				}
				if text := log.String(); strings.Count(text, "name=bad") != 1 || !strings.Contains(text, "delivery=1 dead_letter=true") {
					t.Errorf("the log says %s", text)
				}
			}, kind)
		})
	}
}

// TestQueueStats: a turn knows what its queue holds, by name, with what the turn itself does.
func TestQueueStats(t *testing.T) {
	look := func(c *Context) (string, error) {
		s, err := c.QueueStats()
		n := s.Of("job")
		return fmt.Sprint(n.Ready, n.Delayed, n.Leased, n.Dead), err
	}
	kind := thing(NewAction("fill", func(c *Context, _ struct{}) (string, error) {
		for _, s := range []queue.Send{{Name: "job"}, {Name: "job"}, {Name: "job", Delay: time.Hour}} {
			if _, err := c.Enqueue(s); err != nil {
				return "", err
			}
		}
		return look(c)
	}), NewAction("fail", func(c *Context, _ struct{}) (string, error) {
		m, err := c.Receive("job")
		if err != nil {
			return "", err
		}
		leased, err := look(c)
		if err != nil {
			return "", err
		}
		if err := m.Nack(0, queue.Permanent(errRefused)); err != nil {
			return "", err
		}
		dead, err := look(c)
		return leased + ", " + dead, err
	}), NewAction("look", func(c *Context, _ struct{}) (string, error) { return look(c) }))
	bubble(t, Options{}, func(r *rig) {
		for _, tt := range []struct{ action, want string }{
			{"look", "0 0 0 0"}, {"fill", "2 1 0 0"}, {"look", "2 1 0 0"}, {"fail", "1 1 1 0, 1 1 0 1"}, {"look", "1 1 0 1"},
		} {
			if got, err := invoke[string](r.ctx, r.Host, lobby, tt.action, struct{}{}); err != nil || got != tt.want {
				t.Errorf("%s: got %q, %v; want %q", tt.action, got, err, tt.want)
			}
		}
	}, kind)
}
