package wasm

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
)

// plainCounter is what the module's action "add" does, in Go.
func plainCounter() *host.Type {
	return &host.Type{Name: "thing", Actions: []host.AnyAction{
		host.NewAction("add", func(c *host.Context, n int) (total int, err error) {
			err = greenroom.Mutate(c, func(t *int) error { *t += n; total = *t; return nil })
			return total, err
		}),
	}}
}

// BenchmarkTurn counts in one actor: as part of the program, as a module in Go, and as one
// written by hand that does nothing.
func BenchmarkTurn(b *testing.B) {
	b.Run("go", func(b *testing.B) { benchTurns(b, plainCounter(), "add") })
	b.Run("module", func(b *testing.B) {
		m, err := goModule()
		must(b, err)
		benchTurns(b, m.Type(), "add")
	})
	b.Run("empty module", func(b *testing.B) {
		benchTurns(b, (&tiny{}).compile(b, Options{}).Type(), "ok")
	})
}

func benchTurns(b *testing.B, kind *host.Type, action string) {
	r := newRigOf(b, kind, host.Options{})
	call1[any](r, lobby, action, 1)
	for b.Loop() {
		call1[any](r, lobby, action, 1)
	}
	r.close()
}

// BenchmarkSQL has turns write with SQL, and fail behind that: the next one has a new
// connection.
func BenchmarkSQL(b *testing.B) {
	m, err := goModule()
	must(b, err)
	for name, want := range map[string]string{"lands": "", "fails": "overdrawn"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, m, host.Options{})
			amount := 0
			for b.Loop() {
				if amount++; want != "" {
					amount = -1 // again and again, as it never lands
				}
				if code := r.code(lobby, "book", amount); code != want {
					b.Fatal(code)
				}
			}
			r.close()
		})
	}
}

// BenchmarkConfine opens databases, as SQLite does and as modules have them.
func BenchmarkConfine(b *testing.B) {
	m := &Module{opts: (*Options)(nil).orDefault()}
	for name, confine := range map[string]func(*sqlite3.Conn) error{"plain": func(*sqlite3.Conn) error { return nil }, "confined": m.confine} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := sqlite3.Open(":memory:")
				must(b, err)
				must(b, confine(c))
				must(b, c.Close())
			}
		})
	}
}

// BenchmarkInstance makes instances of the module in Go, and says what each takes.
func BenchmarkInstance(b *testing.B) {
	m, err := goModule()
	must(b, err)
	r := newRig(b, m, host.Options{})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		call1[any](r, host.Address{Type: "thing", Key: fmt.Sprint(n)}, "add", 1)
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(min(n, defaultInstances)), "B/instance")
	r.close()
}
