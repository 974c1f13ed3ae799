package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/mailrow"
	"github.com/greenroomdb/greenroom/queue"
)

// ear is the actor to which the others talk.
var ear = Address{"ear", "mine"}

// talkers are a type that sends, and one that keeps what it gets in its state, where it
// can be read with "heard".
func talkers() []*Type {
	tell := NewAction("tell", func(c *Context, n int) (int, error) {
		for i := range n {
			if err := c.Send(ear, queue.Send{Name: "word", Body: i}); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	talker := thing(
		tell,
		NewAction("say", func(c *Context, text string) (int, error) {
			return 0, c.Send(ear, queue.Send{Name: "word", Body: text})
		}),
		NewAction("fail", func(c *Context, text string) (int, error) {
			return 0, errors.Join(c.Send(ear, queue.Send{Name: "word", Body: text}), errRefused)
		}),
		NewAction("last word", func(c *Context, text string) (int, error) {
			return 0, errors.Join(c.Send(ear, queue.Send{Name: "word", Body: text}), c.Destroy())
		}),
		NewAction("number", func(c *Context, _ struct{}) (n int, err error) {
			err = greenroom.Mutate(c, func(v *int) error { *v++; n = *v; return nil })
			return n, errors.Join(err, c.Send(ear, queue.Send{Name: "word", Body: n}))
		}),
		NewAction("numbered", func(c *Context, _ struct{}) (int, error) { return greenroom.State[int](c) }),
	)
	return []*Type{talker, listener()}
}

func listener() *Type {
	return &Type{
		Name: "ear",
		Actions: []AnyAction{
			NewAction("heard", func(c *Context, _ struct{}) ([]string, error) { return greenroom.State[[]string](c) }),
		},
		Message: func(c *Context, m *greenroom.Message) error {
			var v any
			if err := m.Decode(&v); err != nil {
				return err
			}
			return greenroom.Mutate(c, func(heard *[]string) error { *heard = append(*heard, fmt.Sprint(v)); return nil })
		},
		Queue: greenroom.QueueOptions{MaxMessages: 1000},
	}
}

func (r *rig) heard() []string {
	r.Helper()
	heard, err := invoke[[]string](r.ctx, r.Host, ear, "heard", nil)
	must(r, err)
	return heard
}

func (r *rig) wantHeard(want ...string) {
	r.Helper()
	if got := r.heard(); !slices.Equal(got, want) {
		r.Errorf("heard %q, want %q", got, want)
	}
}

// wantNumbers looks whether an ear has heard the numbers up to n, each once, in any order.
func wantNumbers(t testing.TB, heard []string, n int) {
	t.Helper()
	got, want := slices.Sorted(slices.Values(heard)), slices.Sorted(slices.Values(numbers(n)))
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want the numbers up to %d", heard, n)
	}
}

// wantNoLetters looks whether all outboxes are empty.
func (r *rig) wantNoLetters() {
	r.Helper()
	for info, err := range r.Store().Actors(r.ctx, nil) {
		must(r, err)
		if n := len(r.lettersOf(info.ID)); n != 0 {
			r.Errorf("%s has %d messages in its outbox", info.Name, n)
		}
	}
}

// numbers are the texts of 1 to n.
func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return all
}

func TestSend(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "hello")
		_, err := invoke[int](r.ctx, r.Host, lobby, "fail", "never")
		wantErr(t, err, errRefused)
		for i := range 5 {
			r.call(lobby, "say", fmt.Sprint(i))
		}
		pass(time.Second)
		r.wantHeard("hello", "0", "1", "2", "3", "4")
		r.wantNoLetters()
		pass(time.Minute)
		if s := r.Stats(); s.Awake != 0 || s.Alarms != 0 {
			t.Errorf("%+v when everything has come", s)
		}
		r.wantRows(0)
		r.call(lobby, "last word", "good bye")
		pass(time.Second)
		r.call(lobby, "say", "I am a new one")
		pass(time.Second)
		r.wantHeard("hello", "0", "1", "2", "3", "4", "good bye", "I am a new one")
	}, talkers()...)
}

// TestSendRefused has messages that can't be sent.
func TestSendRefused(t *testing.T) {
	kinds := talkers()
	kinds[1].Queue.Names = []string{"word"}
	kinds[1].Queue.MaxMessageBytes = 100
	bubble(t, Options{}, func(r *rig) {
		send := func(to Address, s queue.Send) error {
			return r.Do0(func(c *Context) error { return c.Send(to, s) })
		}
		for _, bad := range []struct {
			to   Address
			s    queue.Send
			want error
		}{
			{Address{"", "x"}, queue.Send{}, ErrAddress},
			{Address{"nothing", "x"}, queue.Send{}, ErrNoType},
			{ear, queue.Send{Name: "\xff"}, queue.ErrInvalid},
			{ear, queue.Send{Delay: -1}, queue.ErrInvalid},
			{ear, queue.Send{Body: func() {}}, queue.ErrInvalid},
			{ear, queue.Send{Body: Raw{0xff}}, queue.ErrInvalid},
		} {
			if err := send(bad.to, bad.s); !errors.Is(err, bad.want) {
				t.Errorf("%v: got %v, want %v", bad.s, err, bad.want)
			}
		}
		_, err := invoke[int](r.ctx, r.Host, lobby, "tell", maxLetters+1)
		wantErr(t, err, ErrOutboxFull)
		// A message that no receiver can take doesn't hold up others.
		must(t, send(ear, queue.Send{Name: "nobody's"}))
		must(t, send(ear, queue.Send{Name: "word", Body: strings.Repeat("x", 200)}))
		must(t, send(ear, queue.Send{Name: "word", Body: queue.Raw{0x01}, Delay: time.Hour}))
		must(t, send(ear, queue.Send{Name: "word", Body: Raw{0x02}}))
		must(t, send(ear, queue.Send{Name: "word"}))
		pass(time.Second)
		r.wantHeard("2", "<nil>")
		r.wantNoLetters()
		pass(time.Hour)
		r.wantHeard("2", "<nil>", "1")
	}, kinds...)
}

// TestSendToItself is a message to the own queue, in the same commit.
func TestSendToItself(t *testing.T) {
	kind := listener()
	kind.Actions = append(kind.Actions, NewAction("say", func(c *Context, text string) (int, error) {
		return c.life.queue.Len(), c.Send(c.Address(), queue.Send{Name: "word", Body: Raw{0x63, 'y', 'e', 's'}})
	}))
	bubble(t, Options{}, func(r *rig) {
		r.call(ear, "say", "x")
		pass(time.Second)
		r.wantHeard("yes")
		r.wantNoLetters()
	}, kind)
}

// TestSendWhenSleeping is an actor that sends something whenever it goes to sleep.
func TestSendWhenSleeping(t *testing.T) {
	kinds := talkers()
	kinds[0].Sleep = func(c *Context) error { return c.Send(ear, queue.Send{Name: "word", Body: "good night"}) }
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "hello")
		pass(time.Hour)
		r.wantHeard("hello", "good night")
		r.wantNoLetters()
	}, kinds...)
}

// TestSendAcrossRestarts closes the host with a message under way: the next one sends it
// at once.
func TestSendAcrossRestarts(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		must(t, r.Create(r.ctx, ear, nil))
		pass(time.Minute)
		release := make(chan bool)
		busy := make(chan error, 1)
		go func() {
			busy <- r.turn(r.ctx, ear, nil, newTurn("test", func(*Context) error { <-release; return nil }))
		}()
		synctest.Wait()
		r.call(lobby, "say", "one")
		closed := make(chan error, 1)
		go func() { closed <- r.Host.Close(r.ctx) }()
		synctest.Wait()
		close(release)
		must(t, <-busy)
		must(t, <-closed)
		r.open()
		pass(time.Second)
		r.wantHeard("one")
		r.wantNoLetters()
	}, talkers()...)
}

// TestSendBacksOff sends to an actor that can't be created: it is tried less and less often, and
// has come soon after it can.
func TestSendBacksOff(t *testing.T) {
	var tries atomic.Int32
	var good atomic.Bool
	kinds := talkers()
	kinds[1].Create = func(*Context) error {
		tries.Add(1)
		if good.Load() {
			return nil
		}
		return errRefused
	}
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "hello")
		pass(2 * time.Hour)
		before := tries.Load()
		pass(time.Hour)
		if n := tries.Load() - before; n == 0 || n > int32(attempts*time.Hour/resendAtMost) {
			t.Errorf("%d tries in an hour, after two", n)
		}
		good.Store(true)
		pass(resendAtMost)
		r.wantHeard("hello")
		r.wantNoLetters()
	}, kinds...)
}

// TestSendFromFork: a fork of an actor doesn't send the messages in the outbox of the original.
func TestSendFromFork(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		r.call(lobby, "say", "one")
		pass(time.Minute)
		r.wantHeard("one")
		// As if the letter had been under way when the fork was made.
		id := actorstore.IDFromName(lobby.String())
		other := Address{"thing", "other"}
		r.call(other, "numbered", nil)
		must(t, r.turn(r.ctx, other, nil, newTurn("test", func(c *Context) error {
			l := &mailrow.Letter{Number: 7, From: mailrow.SenderOf(id), To: ear.String(), Name: "word", Body: Raw{1}}
			c.Batch().Put(mailrow.LetterKey(l.Number), l.Append(nil))
			return nil
		})))
		r.reopen()
		r.call(other, "number", nil)
		pass(10 * time.Minute)
		r.wantHeard("one", "1")
		r.wantNoLetters()
	}, talkers()...)
}

// TestSeenIsForgotten has many actors send one message each, and looks what the receiver
// keeps of them.
func TestSeenIsForgotten(t *testing.T) {
	bubble(t, Options{}, func(r *rig) {
		count := func() (n int) {
			v, err := r.Store().Lower().View(r.ctx, actorstore.IDFromName(ear.String()))
			must(t, err)
			start, end := mailrow.SeenRange()
			for e, err := range v.List(r.ctx, actorstore.ListOptions{Start: start, End: end}) {
				must(t, err)
				_, err := mailrow.ParseSeen(e.Value)
				must(t, err)
				n++
			}
			must(t, v.Close())
			return n
		}
		for i := range 50 {
			r.call(Address{"thing", fmt.Sprint(i)}, "say", "x")
		}
		pass(time.Minute)
		if n := count(); n != 50 {
			t.Errorf("%d senders are known", n)
		}
		pass(25 * time.Hour)
		for i := range 100 {
			r.call(Address{"thing", fmt.Sprint("new", i)}, "say", "x")
		}
		pass(time.Minute)
		if n := count(); n < 100 || n >= 150 {
			t.Errorf("%d senders are known a day later", n)
		}
		if n := len(r.heard()); n != 150 {
			t.Errorf("%d were heard", n)
		}
	}, talkers()...)
}
