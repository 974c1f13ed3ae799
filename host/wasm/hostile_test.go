package wasm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/internal/abi"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// engines are both ways in which modules run.
var engines = map[string]bool{"compiled": false, "interpreted": true}

// fine calls an action that does no harm.
func (r *rig) fine(a host.Address) {
	r.Helper()
	if !call1[bool](r, a, "ok", nil) {
		r.Error("a turn that does no harm says false")
	}
}

// attack calls the hostile action of a module between turns that must work, and returns
// its error.
func attack(t *testing.T, m *tiny, opts Options) (err error) {
	t.Helper()
	// What must work has all the time that there is: only the attack ends with its time.
	limit := opts.TurnTimeout
	opts.TurnTimeout = 0
	c := m.compile(t, opts)
	r := newRig(t, c, host.Options{})
	r.fine(lobby)
	plenty := c.opts.TurnTimeout
	if limit > 0 {
		c.opts.TurnTimeout = limit // it isn't read between turns
	}
	_, err = invoke[any](r.ctx, r.Host, lobby, long, nil)
	c.opts.TurnTimeout = plenty
	r.fine(lobby)
	r.fine(other)
	r.close()
	must(t, c.Close(context.Background()))
	return err
}

// forever runs instructions, which leave nothing, again and again.
func forever(b ...any) []byte { return code(opLoop, noResult, code(b...), opBr, 0, opEnd) }

// while runs instructions, which leave a condition, as long as that isn't 0.
func while(b ...any) []byte { return code(opLoop, noResult, code(b...), opBrIf, 0, opEnd) }

// expect traps unless the number on the stack is less than 0.
var expectLess = code(i32(0), opGeS, opIf, noResult, opUnreachable, opEnd)

func record(t testing.TB, text string) []byte {
	b, err := abi.Encode(abi.Record{Message: text})
	must(t, err)
	return b
}

// TestHostile has modules do their worst.
func TestHostile(t *testing.T) {
	line := record(t, strings.Repeat("x", 1000))
	again := code(opLocalGet, 0, i32(1), opSub, opCall, own(funcTurn)) // twice in each is 2 to the power of its size
	for name, test := range map[string]struct {
		module tiny
		want   error // nil means that the turn lands
	}{
		"trap":         {tiny{hostile: code(opUnreachable)}, ErrTrap},
		"loop":         {tiny{hostile: forever()}, context.DeadlineExceeded},
		"loop of logs": {tiny{hostile: forever(callTo("log", dataAt, uint32(len(line))), opDrop), data: line}, context.DeadlineExceeded},
		"loop of keys": {tiny{hostile: forever(callTo("kv_put", dataAt, 5), opDrop), data: []byte{0x82, 0x41, 'a', 0x41, 'b'}}, context.DeadlineExceeded},
		"recursion":    {tiny{hostile: code(opCall, own(funcMore)), more: code(opCall, own(funcMore))}, ErrTrap},
		"own turn":     {tiny{hostile: code(i32(1000), opCall, own(funcTurn))}, ErrTrap},
		"calls":        {tiny{hostile: code(again, again)}, context.DeadlineExceeded},
		"copies":       {tiny{hostile: forever(i32(0), i32(0), i32(2<<16), opBulk, 11, 0)}, context.DeadlineExceeded},
		"memory":       {tiny{hostile: while(i32(1), opMemoryGrow, 0, i32(0xffffffff), opNe)}, nil},
		"all memory":   {tiny{hostile: code(i32(0xffff), opMemoryGrow, 0, i32(0), opGeS, opIf, noResult, opUnreachable, opEnd)}, nil},
		"no function":  {tiny{hostile: code(i32(1), 0x11, 1, 0, opDrop), tables: []byte{1, typeFuncref, 0, 5}}, ErrTrap},
		"destroys":     {tiny{hostile: code(callTo("destroy", 0, 0), opDrop), hooks: []string{abi.KindDestroy}}, nil},
	} {
		for engine, interpret := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				if testkit.Race && !interpret && test.module.more != nil || testkit.Race && name == "own turn" {
					t.Skip("a deep stack takes long with the race detector")
				}
				var limit time.Duration // enough for what ends by itself
				if errors.Is(test.want, context.DeadlineExceeded) {
					limit = 100 * time.Millisecond
				}
				err := attack(t, &test.module, Options{Interpret: interpret, MemoryPages: 64, TurnTimeout: limit})
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if errors.Is(err, ErrTrap) && host.Code(err) != "actor_failed" {
					t.Errorf("the code is %q", host.Code(err))
				}
			})
		}
	}
}

// A readerFunc is a reader.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestHostTime has the time of a turn end within a function of the host: the next one, of
// the host's own and of WASI, must not begin. A few calls are less than any number of
// rounds between two ticks.
func TestHostTime(t *testing.T) {
	for name, wasi := range map[string]string{"own": "", "wasi": "random_get"} {
		for engine, interpret := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				reads := 0
				m := &tiny{hostile: code(slicesRepeat(code(callTo("random", dataAt, 8), opDrop), 100)), wasi: wasi}
				c := m.compile(t, Options{Interpret: interpret, Random: readerFunc(func(b []byte) (int, error) {
					reads++
					cancel()
					return len(b), nil
				})})
				i := &instance{module: c}
				err := i.run(&call{instance: i, ctx: ctx}, func(ctx context.Context) error {
					_, err := i.guest.ExportedFunction(abi.TurnExport).Call(ctx, longEvent)
					return err
				})
				if !errors.Is(err, context.Canceled) || reads != 1 {
					t.Errorf("after %d calls: %v", reads, err)
				}
				must(t, c.Close(context.Background()))
			})
		}
	}
}

// TestDestroyAgain destroys the actor in every event, the one of its end included.
func TestDestroyAgain(t *testing.T) {
	m := &tiny{hostile: code(callTo("destroy", 0, 0), opDrop), always: true, hooks: []string{abi.KindDestroy, abi.KindCreate, abi.KindSleep}}
	c := m.compile(t, Options{})
	r := newRig(t, c, host.Options{})
	for range 2 {
		if _, err := invoke[any](r.ctx, r.Host, lobby, "x", nil); err != nil {
			t.Error(err)
		}
	}
	r.close()
	must(t, c.Close(context.Background()))
}

// TestPointers calls every function with places that are not in the memory.
func TestPointers(t *testing.T) {
	const end = 2 << 16
	var all []byte
	for _, name := range imports {
		for _, place := range [][2]uint32{
			{0, 0xffffffff}, {0xffffffff, 0xffffffff}, {0xffffffff, 1}, {end, 1}, {end - 1, 2}, {1, end}, {0x80000000, 0x80000000},
		} {
			all = code(all, callTo(name, place[0], place[1]), expectLess)
		}
	}
	for engine, interpret := range engines {
		t.Run(engine, func(t *testing.T) {
			if err := attack(t, &tiny{hostile: all}, Options{Interpret: interpret}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNonsense calls every function with bytes that aren't a valid argument. Those that take
// any value, and those that take none, don't mind.
func TestNonsense(t *testing.T) {
	anything := map[string]bool{
		"reply": true, "self": true, "input": true, "destroy": true, "state_get": true, "state_set": true, "kv_get": true,
		"queue_len": true, "schedule_list": true, "conn_list": true, "random": true, "kv_delete": true,
		"schedule_cancel": true,
	}
	long := append([]byte{0x9b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, make([]byte, 100)...) // an array of 2³² elements
	bignum := append([]byte{0xc2, 0x59, 0x40, 0}, make([]byte, 1<<14)...)
	for name, data := range map[string][]byte{
		"bignum": bignum, "nothing": {}, "cut off": {0x82, 0x41}, "deep": []byte(strings.Repeat("\x81", 200) + "\x00"), "long": long, "undefined": {0xf7},
		"array": {0x80}, "object": {0xb9, 0, 0}, "float": {0xfb, 1, 2, 3, 4, 5, 6, 7, 8}, "NaN": {0xf9, 0x7e, 0}, "trailing": {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var all []byte
			for _, f := range imports {
				all = code(all, callTo(f, dataAt, uint32(len(data))))
				if anything[f] && !(name == "bignum" && (f == "reply" || f == "state_set")) || name == "object" || name == "undefined" || name == "nothing" && f == "take" {
					all = append(all, opDrop) // options, all of which may be left out
				} else {
					all = append(all, expectLess...)
				}
			}
			if err := attack(t, &tiny{hostile: all, data: data}, Options{Interpret: true}); errors.Is(err, ErrTrap) {
				t.Error(err)
			}
		})
	}
}

// TestBudget has the host keep too much, in small pieces.
func TestBudget(t *testing.T) {
	put := []byte{0x82, 0x41, 'a', 0x41, 'b'} // the entry a: b
	m := &tiny{hostile: while(callTo("kv_put", dataAt, uint32(len(put))), i32(0), opGeS), data: put}
	if err := attack(t, m, Options{TurnBytes: 1 << 20}); err != nil {
		t.Error(err) // a loop until it is refused
	}
}

// TestFlood looks how much a module can log at most, and that time makes it more.
func TestFlood(t *testing.T) {
	line := record(t, strings.Repeat("x", 500))
	m := &tiny{hostile: code(slicesRepeat(code(callTo("log", dataAt, uint32(len(line))), opDrop), 1000)), data: line}
	c := m.compile(t, Options{LogBytes: 6000})
	var book logBook
	r := newRig(t, c, host.Options{Logger: slog.New(slog.NewTextHandler(&book, nil))})
	if _, err := invoke[any](r.ctx, r.Host, lobby, long, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(book.String(), "xxx "); n != 10 {
		t.Errorf("%d lines, want 10", n)
	}
	if want := "lines=990"; !strings.Contains(book.String(), want) {
		t.Errorf("the log doesn't say %q", want)
	}
	r.close()
	must(t, c.Close(context.Background()))
	var b logBudget
	now := time.Unix(1, 0)
	for _, step := range []struct {
		after time.Duration
		n     int
		want  bool
	}{{0, 16_000, true}, {0, 1, false}, {time.Second, 1000, true}, {0, 1, false}, {-time.Hour, 1, false}, {2 * time.Hour, 16_000, true}, {1000 * time.Hour, 16_001, false}} {
		now = now.Add(step.after)
		if got := b.take(now, step.n, 16_000); got != step.want {
			t.Errorf("%+v: got %v", step, got)
		}
	}
}

func slicesRepeat(b []byte, n int) []byte { return []byte(strings.Repeat(string(b), n)) }

// TestModules tries to compile what can't be.
func TestModules(t *testing.T) {
	for name, test := range map[string]struct {
		code []byte
		want error
	}{
		"nothing":        {nil, ErrModule},
		"text":           {[]byte("package main"), ErrModule},
		"preamble":       {[]byte(preamble), ErrModule},
		"cut off":        {(&tiny{}).build(t)[:200], ErrModule},
		"no turn":        {(&tiny{without: abi.TurnExport}).build(t), ErrModule},
		"no memory":      {(&tiny{without: "memory"}).build(t), ErrModule},
		"version":        {(&tiny{version: 2}).build(t), ErrModule},
		"import":         {(&tiny{imports: [2]string{abi.Module, "launch"}}).build(t), ErrModule},
		"other module":   {(&tiny{imports: [2]string{"env", "reply"}}).build(t), ErrModule},
		"large table":    {(&tiny{tables: code(1, typeFuncref, 0, uleb(1<<30))}).build(t), ErrModule},
		"many tables":    {(&tiny{tables: code(5, slicesRepeat(code(typeFuncref, 0, 1), 5))}).build(t), ErrModule},
		"table flags":    {(&tiny{tables: code(1, typeFuncref, 3, 1, 1)}).build(t), ErrModule},
		"large memory":   {(&tiny{pages: 1000}).build(t), ErrModule},
		"wrong start":    {(&tiny{start: code(opUnreachable)}).build(t), ErrTrap},
		"endless start":  {(&tiny{start: forever()}).build(t), context.DeadlineExceeded},
		"needs an actor": {(&tiny{start: code(callTo("kv_get", trueAt, 1), expectLess, opUnreachable)}).build(t), ErrTrap},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Hour
			if errors.Is(test.want, context.DeadlineExceeded) {
				timeout = 50 * time.Millisecond
			}
			_, err := Compile(t.Context(), "thing", test.code, &Options{Interpret: true, TurnTimeout: timeout, Logger: quiet})
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// TestTables has a table grow as far as it may.
func TestTables(t *testing.T) {
	grow := func(n uint32) []byte { return code(0xd0, typeFuncref, i32(n), 0xfc, 15, 0) } // ref.null, table.grow
	m := &tiny{tables: []byte{1, typeFuncref, 0, 1}, hostile: code(
		grow(maxTable-1), i32(1), opNe, opIf, noResult, opUnreachable, opEnd,
		grow(1), expectLess,
	)}
	if err := attack(t, m, Options{Interpret: true}); err != nil {
		t.Error(err)
	}
}

// TestCache compiles a module twice with one folder.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		c := (&tiny{}).compile(t, Options{CacheDir: dir})
		r := newRig(t, c, host.Options{})
		r.fine(lobby)
		r.close()
		must(t, c.Close(context.Background()))
	}
}

// TestParallel has many actors call a module at once, with hardly any instances, and some
// of them trap.
func TestParallel(t *testing.T) {
	for engine, interpret := range engines {
		t.Run(engine, func(t *testing.T) {
			c := (&tiny{hostile: code(opUnreachable)}).compile(t, Options{Instances: 2, Interpret: interpret})
			r := newRig(t, c, host.Options{})
			var work sync.WaitGroup
			for i := range 8 {
				work.Go(func() {
					a := host.Address{Type: "thing", Key: string(rune('a' + i))}
					for range 30 {
						if ok, err := invoke[bool](r.ctx, r.Host, a, "ok", nil); !ok || err != nil {
							t.Errorf("got %v, %v", ok, err)
						}
						if _, err := invoke[any](r.ctx, r.Host, a, long, nil); !errors.Is(err, ErrTrap) {
							t.Errorf("got %v", err)
						}
					}
				})
			}
			work.Wait()
			r.close()
			must(t, c.Close(context.Background()))
		})
	}
}

// TestPage looks that docs/wasm.md has every function and every code.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/wasm.md")
	must(t, err)
	names := append(slices.Clone(imports), "now")
	for _, e := range []*host.Error{errPointer, errNoTurn, errTooEarly, errBudget, errQuery, errTxOver} {
		names = append(names, e.Code)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "\n| `"+name) {
			t.Errorf("the page has no row for %s", name)
		}
	}
}
