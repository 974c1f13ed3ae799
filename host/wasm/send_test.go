package wasm

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/queue"
)

// A letter is the one of the Go module.
type letter struct {
	Type, Key, Code string
	N               int
	Delay           time.Duration
	Priority        int
}

// TestSend sends from actor to actor: what a turn that fails has sent doesn't come.
func TestSend(t *testing.T) {
	withGo(t, func(r *rig) {
		for _, l := range []letter{
			{"thing", other.Key, "", 5, 0, 9}, {"thing", other.Key, "refused", 100, 0, 0}, {"thing", other.Key, "", 7, 0, 0},
		} {
			if got := r.code(lobby, "tell", l); got != l.Code {
				t.Errorf("%+v: %q", l, got)
			}
		}
		r.total(other, 12) // they come in their order
		call1[string](r, lobby, "tell", letter{Type: "thing", Key: lobby.Key, N: 3})
		r.total(lobby, 3)
	})
}

// total waits until the total of an actor is at least n, and wants no more.
func (r *rig) total(a host.Address, n int) {
	r.Helper()
	var got int
	for got < n {
		got = call1[int](r, a, "total", nil)
	}
	if got != n {
		r.Errorf("%s has %d, want %d", a, got, n)
	}
}

// TestSendRefused sends what can't be sent. The turns land, and nothing comes.
func TestSendRefused(t *testing.T) {
	withGo(t, func(r *rig) {
		for _, test := range []struct {
			letter letter
			want   string
		}{
			{letter{Type: "", Key: "a"}, "bad_address"},
			{letter{Type: "thing", Key: ""}, "bad_address"},
			{letter{Type: "thing/a", Key: "a"}, "bad_address"},
			{letter{Type: "thing", Key: strings.Repeat("a", 5000)}, "bad_address"},
			{letter{Type: "nothing", Key: "a"}, "no_such_type"},
			{letter{Type: "thing", Key: "a", Delay: -time.Second}, queue.Code(queue.ErrInvalid)},
			{letter{Type: "thing", Key: "a", Priority: queue.MaxPriority + 1}, queue.Code(queue.ErrInvalid)},
		} {
			if got := call1[string](r, lobby, "tell", test.letter); got != test.want || got == "" {
				t.Errorf("%.60q/%.60q: %q, want %q", test.letter.Type, test.letter.Key, got, test.want)
			}
		}
		_, err := invoke[int](r.ctx, r.Host, lobby, "shout", other.Key)
		if host.Code(err) != "outbox_full" || host.Message(err) != "1000" || !errors.Is(err, host.ErrOutboxFull) {
			t.Errorf("got %v of %q", err, host.Code(err))
		}
		call1[string](r, lobby, "tell", letter{Type: "thing", Key: other.Key, N: 1 << 20})
		r.total(other, 1<<20) // and nothing before it
	})
}

// TestLetters has guests send as much as they may: to whom, how much, and how many that
// create each other, also over a restart.
func TestLetters(t *testing.T) {
	m := thing(t)
	kind := m.Type()
	if l := kind.Letters; !slices.Equal(l.To, []string{"thing/*"}) || l.Generations != defaultGenerations || l.Rate != defaultRate || l.Burst != defaultBurst {
		t.Errorf("the defaults are %+v", l)
	}
	kind.Letters.To = []string{"thing/lobby", "thing/a*"}
	kind.Letters.Rate, kind.Letters.Burst = 1e-6, 3
	r := newRigOf(t, kind, host.Options{})
	if got := call1[string](r, lobby, "chain", "a"); got != "" {
		t.Errorf("it is %q", got)
	}
	r.total(lobby, 1)
	var names []string
	for info, err := range r.Store().Lower().Names(r.ctx) {
		must(t, err)
		names = append(names, info.Name)
	}
	slices.Sort(names)
	if want := []string{"thing/a", "thing/a+", "thing/lobby"}; !slices.Equal(names, want) {
		t.Errorf("there are %q, want %q", names, want)
	}
	tell := func(from host.Address, key string) string {
		return call1[string](r, from, "tell", letter{Type: "thing", Key: key})
	}
	last := host.Address{Type: "thing", Key: "a+"}
	for range 2 {
		if got := tell(last, "ab"); got != "too_many_generations" {
			t.Errorf("the last one: %q", got)
		}
		if got := tell(last, "b"); got != "not_allowed" {
			t.Errorf("not one of those: %q", got)
		}
		r.close()
		r.open()
	}
	for i, want := range []string{"", "", "too_fast", "too_fast"} { // one has gone before
		if got := tell(lobby, "a"); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
		r.close()
		r.open()
	}
	r.close()
}

// TestSendByHand is TestSend with a module that traps when it has sent.
func TestSendByHand(t *testing.T) {
	const much = 400 // the size of the event that is to trap, or less
	ear := host.Address{Type: "ear", Key: "mine"}
	var data []byte
	var size [2]uint32
	for i, name := range []string{"word", "never"} {
		b, err := abi.Encode(abi.Letter{To: abi.Address{Type: ear.Type, Key: ear.Key}, Message: abi.Send{Name: name}})
		must(t, err)
		data, size[i] = append(data, b...), uint32(len(b))
	}
	m := &tiny{data: data, hostile: code(
		opLocalGet, 0, i32(much), opLtU, opIf, noResult,
		callTo("send", dataAt, size[0]), opIf, noResult, opUnreachable, opEnd, opReturn, opEnd,
		callTo("send", dataAt+size[0], size[1]), opDrop, opUnreachable,
	)}
	c := m.compile(t, Options{Interpret: true, Letters: host.Letters{To: []string{"ear/mine"}}})
	heard := make(chan string, 10)
	h, err := host.Open(t.Context(), memkv.New(), []*host.Type{c.Type(), {
		Name:    ear.Type,
		Message: func(_ *host.Context, m *greenroom.Message) error { heard <- m.Name; return nil },
	}}, &host.Options{Logger: quiet})
	must(t, err)
	for i := range 3 {
		_, err := invoke[any](t.Context(), h, lobby, long+strings.Repeat("x", much), nil)
		if !errors.Is(err, ErrTrap) {
			t.Errorf("got %v", err)
		}
		_, err = invoke[any](t.Context(), h, lobby, long, nil)
		must(t, err)
		if got := <-heard; got != "word" {
			t.Errorf("%d: heard %q", i, got)
		}
	}
	must(t, h.Close(t.Context()))
	must(t, c.Close(t.Context()))
}
