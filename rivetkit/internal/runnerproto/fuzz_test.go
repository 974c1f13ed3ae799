package runnerproto_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// FuzzToEngine decodes any bytes as a message to the engine, in any version of both protocols. A message that could be decoded
// encodes to the same bytes, which decode to the same message. Memory is bounded by the bytes.
func FuzzToEngine(f *testing.F) {
	fuzz(f, rp.EngineBound, slices.Concat(toEngine, fromEnvoy), fromRunner)
}

// FuzzToRunner does the same with messages to a runner.
func FuzzToRunner(f *testing.F) {
	fuzz(f, rp.RunnerBound, slices.Concat(toRunner, toEnvoy), intoRunner)
}

func fuzz[M any](f *testing.F, d rp.Direction[M], seeds []golden[M], dir string) {
	add := func(v rp.Version, b []byte) { f.Add(byte(slices.Index(all, v)), b) }
	for _, g := range seeds {
		g.in(f, add)
	}
	kinds := map[string]bool{}
	for _, c := range captured(f) {
		if c.Dir != dir || !c.whole() {
			continue
		}
		b := unhex(f, c.Hex)
		m, err := d.Decode(c.version, b)
		if err != nil {
			f.Fatal(err)
		}
		if kind := fmt.Sprintf("%v %T %d", c.version, m, bits.Len(uint(len(b)))); !kinds[kind] {
			kinds[kind] = true
			add(c.version, b)
		}
	}
	f.Fuzz(func(t *testing.T, version byte, b []byte) {
		v := all[int(version)%len(all)]
		var m M
		var err error
		bounded(t, len(b), func() { m, err = d.Decode(v, b) })
		if err != nil {
			if !errors.Is(err, rp.ErrMalformed) {
				t.Errorf("error %v, want ErrMalformed", err)
			}
			return
		}
		again, err := d.Append(nil, v, m)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("decoded %+v, which encodes as %x, %v", m, again, err)
		}
		got, err := d.Decode(v, again)
		if nan := strings.Contains(fmt.Sprint(m), "NaN"); err != nil || !nan && !reflect.DeepEqual(got, m) {
			t.Errorf("decoded %+v first, then %+v, %v", m, got, err)
		}
	})
}

// bounded fails if decode takes more memory than n bytes of a message may.
func bounded(t *testing.T, n int, decode func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(200*n+64<<10); got > limit {
		t.Errorf("%d bytes took %d bytes of memory", n, got)
	}
}
