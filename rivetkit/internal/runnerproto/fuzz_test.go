package runnerproto_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// FuzzToEngine decodes any bytes as a message to the engine. A message that could be decoded encodes to
// the same bytes, which decode to the same message.
func FuzzToEngine(f *testing.F) { fuzz(f, rp.EngineBound, toEngine, fromRunner) }

// FuzzToRunner does the same with messages to a runner.
func FuzzToRunner(f *testing.F) { fuzz(f, rp.RunnerBound, toRunner, intoRunner) }

func fuzz[M any](f *testing.F, d rp.Direction[M], seeds []golden[M], dir string) {
	for _, g := range seeds {
		g.in(f, func(v rp.Version, b []byte) { f.Add(byte(v), b) })
	}
	for _, c := range captured(f) {
		if c.Dir == dir {
			f.Add(byte(rp.V6), unhex(f, c.Hex))
		}
	}
	f.Fuzz(func(t *testing.T, v byte, b []byte) {
		m, err := d.Decode(rp.Version(v), b)
		if err != nil {
			if !errors.Is(err, rp.ErrMalformed) && !errors.Is(err, rp.ErrVersion) {
				t.Errorf("error %v, want ErrMalformed or ErrVersion", err)
			}
			return
		}
		again, err := d.Append(nil, rp.Version(v), m)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("decoded %+v, which encodes as %x, %v", m, again, err)
		}
		if got, err := d.Decode(rp.Version(v), again); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("decoded %+v first, then %+v, %v", m, got, err)
		}
	})
}
