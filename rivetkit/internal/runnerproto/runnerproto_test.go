package runnerproto_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// The limits of a message, in bytes, and of its lists, in elements.
const (
	maxSize  = 32 << 20
	maxCount = 1 << 16
)

// TestGolden holds every message against its bytes, in all versions that have it.
func TestGolden(t *testing.T) {
	for _, g := range toEngine {
		testGolden(t, rp.EngineBound, g)
	}
	for _, g := range toRunner {
		testGolden(t, rp.RunnerBound, g)
	}
}

func testGolden[M any](t *testing.T, d rp.Direction[M], g golden[M]) {
	t.Helper()
	g.in(t, func(v rp.Version, b []byte) {
		name := fmt.Sprintf("version %v, %T %x", v, g.message, b)
		if got, err := d.Append([]byte("before"), v, g.message); err != nil || string(got) != "before"+string(b) {
			t.Errorf("%s: encoded %x, %v", name, got, err)
		}
		if got, err := d.Decode(v, b); err != nil || !reflect.DeepEqual(got, g.message) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, g.message)
		}
		for n := range b {
			if m, err := d.Decode(v, b[:n]); !errors.Is(err, rp.ErrMalformed) {
				t.Errorf("%s: the first %d bytes are %+v, %v", name, n, m, err)
			}
		}
		if m, err := d.Decode(v, append(bytes.Clone(b), 0)); !errors.Is(err, rp.ErrMalformed) {
			t.Errorf("%s: with one byte more it is %+v, %v", name, m, err)
		}
	})
}

// TestCorrupt: the errors of bytes that aren't a message say which message, where, and why.
func TestCorrupt(t *testing.T) {
	asked, answered := "05 0161 07000000 ", "03 07000000 "
	for _, c := range []struct {
		toEngine bool
		v        rp.Version
		hex      string
		why      string
	}{
		{true, rp.V7, "", "message of no kind: bare: malformed at byte 0"},
		{true, rp.V7, "07", "message of no kind: bare: malformed at byte 0: invalid tag 7 of 7"},
		{true, rp.V7, "ff", "invalid tag 255 of 7"},
		{true, rp.V7, "00 01ff", "RunnerInit: bare: malformed at byte 1: str is not valid UTF-8"},
		{true, rp.V7, "00 00 00000000 00000000 01 02 0161 00 0161 00 00", `key "a" occurs twice`},
		{true, rp.V7, "01 01" + checkpoint + "03", "Events: bare: malformed at byte 16: invalid tag 3 of 3"},
		{true, rp.V7, "01 01" + checkpoint + "00 02", "invalid tag 2 of 2"},
		{true, rp.V7, "01 01" + checkpoint + "01 02", "invalid tag 2 of 2"},
		{true, rp.V7, "01 01" + checkpoint + "01 01 80", "invalid tag 128 of 128"},
		{true, rp.V7, "01 01" + checkpoint + "02 02", "bool is 2"},
		{true, rp.V7, "01 ffffffff0f", "count 4294967295, limit 65536"},
		{true, rp.V7, asked + "06", "KVRequest: bare: malformed at byte 7: invalid tag 6 of 6"},
		{true, rp.V6, asked + "05", "invalid tag 5 of 5"},
		{true, rp.V5, asked + "04 0101 0102", "4 bytes remain"},
		{true, rp.V7, asked + "00 02 00", "count 2, limit 65536, 1 bytes left"},
		{true, rp.V7, asked + "01 03", "invalid tag 3 of 3"},
		{true, rp.V7, asked + "02 01 0101 00", "1 keys, 0 values"},
		{true, rp.V7, "06" + message + "07", "FromActor: bare: malformed at byte 11: invalid tag 7 of 7"},
		{true, rp.V7, "06" + message + "00 c800 02 0161 00 0161 0131 00 00", `key "a" occurs twice`},
		{false, rp.V7, "06", "message of no kind: bare: malformed at byte 0: invalid tag 6 of 6"},
		{false, rp.V5, "00 00 0000000000000000 0000000000000000 00", "EngineInit: bare: malformed at byte 10: 9 bytes remain"},
		{false, rp.V6, "00 00 0000000000000000", "8 bytes wanted, 0 left"},
		{false, rp.V7, "01 01" + checkpoint + "02", "Commands: bare: malformed at byte 16: invalid tag 2 of 2"},
		{false, rp.V7, answered + "06", "KVResponse: bare: malformed at byte 5: invalid tag 6 of 6"},
		{false, rp.V7, answered + "01 00 01 00 00", "0 keys, 1 values"},
		{false, rp.V7, answered + "01 01 00 01 00 00", "1 keys, metadata of 0"},
		{false, rp.V7, "04" + message + "06", "ToActor: bare: malformed at byte 11: invalid tag 6 of 6"},
	} {
		var err error
		if b := unhex(t, c.hex); c.toEngine {
			_, err = rp.EngineBound.Decode(c.v, b)
		} else {
			_, err = rp.RunnerBound.Decode(c.v, b)
		}
		if !errors.Is(err, rp.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.why) {
			t.Errorf("%s: error %v, want ErrMalformed with %q", c.hex, err, c.why)
		}
	}
}

// TestRefused: what could not be decoded isn't encoded.
func TestRefused(t *testing.T) {
	bad, many := "\xff", make([][]byte, maxCount+1)
	dst := []byte("before")
	for _, c := range []struct {
		m   rp.ToEngine
		why string
	}{
		{rp.RunnerInit{Name: bad}, `RunnerInit at byte 1: str "\xff" is not valid UTF-8`},
		{rp.RunnerInit{ActorNames: []rp.ActorName{{"b", ""}, {"a", ""}, {"b", "{}"}}}, `key "b" occurs twice`},
		{rp.Events{{Checkpoint: place}}, "Events at byte 16: event without a body"},
		{event(rp.Intent(2)), "intent 2 of 2"},
		{event(rp.Stopped{Code: 128}), "stop code 128 of 128"},
		{ask(nil), "request without a body"},
		{ask(rp.KVList{}), "list without a query"},
		{ask(rp.KVGet{Keys: many}), "count 65537, limit 65536"},
		{ask(rp.KVDelete{Keys: [][]byte{make([]byte, maxSize)}}), "message of more than 33554432 bytes"},
		{fromActor(nil), "message without a body"},
		{fromActor(rp.ResponseStart{Headers: []rp.Header{{"a", "1"}, {"a", "2"}}}), `key "a" occurs twice`},
	} {
		b, err := rp.EngineBound.Append(dst, rp.V7, c.m)
		if !errors.Is(err, rp.ErrMalformed) || !strings.Contains(fmt.Sprint(err), c.why) || string(b) != "before" {
			t.Errorf("%T: %q, error %v, want ErrMalformed with %q", c.m, b, err, c.why)
		}
	}
	for _, m := range []rp.ToRunner{rp.Commands{{}}, answer(nil), toActor(nil), answer(rp.KVError{Message: bad})} {
		if b, err := rp.RunnerBound.Append(dst, rp.V5, m); !errors.Is(err, rp.ErrMalformed) || string(b) != "before" {
			t.Errorf("%T: %q, %v", m, b, err)
		}
	}
}

// TestLimits: messages of just the greatest size, and lists of the greatest length, come through.
func TestLimits(t *testing.T) {
	const head = 1 + 10 + 1 + 4 + 1 // tags, the id, the length, whether it is binary
	for _, m := range []rp.ToEngine{
		fromActor(rp.SocketMessage{Data: make([]byte, maxSize-head)}),
		ask(rp.KVGet{Keys: make([][]byte, maxCount)}),
	} {
		b, err := rp.EngineBound.Append(nil, rp.V6, m)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		if _, err := rp.EngineBound.Decode(rp.V6, b); err != nil {
			t.Errorf("%T of %d bytes: %v", m, len(b), err)
		}
		if _, ok := m.(rp.FromActor); ok && len(b) != maxSize {
			t.Errorf("the largest message has %d bytes", len(b))
		}
	}
	if _, err := rp.EngineBound.Append(nil, rp.V6, fromActor(rp.SocketMessage{Data: make([]byte, maxSize-head+1)})); !errors.Is(err, rp.ErrMalformed) {
		t.Errorf("a message that is one byte too large: %v", err)
	}
	if _, err := rp.RunnerBound.Decode(rp.V6, make([]byte, maxSize+1)); !errors.Is(err, rp.ErrMalformed) {
		t.Errorf("bytes that are too many: %v", err)
	}
}

// TestMemory: decoding takes memory in proportion to the message, whatever counts it claims.
func TestMemory(t *testing.T) {
	for name, b := range map[string][]byte{
		"a list as long as the message": append(unhex(t, "05 0161 07000000 00 80f003"), make([]byte, 63488)...),
		"a list longer than it":         unhex(t, "05 0161 07000000 00 808004"),
		"long lists that end early":     append(unhex(t, "01 80f003"), make([]byte, 63488)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		rp.EngineBound.Decode(rp.V7, b)
		rp.RunnerBound.Decode(rp.V7, b)
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(200*len(b)+64<<10); got > limit {
			t.Errorf("%s: %d bytes took %d bytes of memory", name, len(b), got)
		}
	}
}

func TestVersions(t *testing.T) {
	for v := range rp.Version(20) {
		known := v >= rp.V5 && v <= rp.V7
		if got, err := rp.ParseVersion(v.String()); known && (err != nil || got != v) || !known && !errors.Is(err, rp.ErrVersion) {
			t.Errorf("ParseVersion(%q) = %v, %v", v, got, err)
		}
		_, encoding := rp.EngineBound.Append(nil, v, rp.Stopping{})
		_, decoding := rp.EngineBound.Decode(v, []byte{3})
		_, encoding2 := rp.RunnerBound.Append(nil, v, rp.Ping{})
		_, decoding2 := rp.RunnerBound.Decode(v, []byte{2, 0})
		for _, err := range []error{encoding, decoding, encoding2, decoding2} {
			if known && err != nil || !known && !errors.Is(err, rp.ErrVersion) {
				t.Errorf("version %v: %v", v, err)
			}
		}
	}
	for _, s := range []string{"", "5 ", "+5", "05", "six"} {
		if v, err := rp.ParseVersion(s); !errors.Is(err, rp.ErrVersion) {
			t.Errorf("ParseVersion(%q) = %v, %v", s, v, err)
		}
	}
	for _, v := range old {
		if b, err := rp.EngineBound.Append(nil, v, ask(rp.KVDeleteRange{})); !errors.Is(err, rp.ErrVersion) || errors.Is(err, rp.ErrMalformed) {
			t.Errorf("KVDeleteRange in version %v: %x, %v", v, b, err)
		}
	}
}

// TestOldInit: version 5 leaves out what it doesn't have.
func TestOldInit(t *testing.T) {
	m := rp.EngineInit{RunnerID: "r", LostThreshold: 1, StopThreshold: 2, DrainGrace: rp.Some[int64](3)}
	b, err := rp.RunnerBound.Append(nil, rp.V5, m)
	if err != nil {
		t.Fatal(err)
	}
	m.StopThreshold, m.DrainGrace = 0, rp.Optional[int64]{}
	if got, err := rp.RunnerBound.Decode(rp.V5, b); got != rp.ToRunner(m) || err != nil {
		t.Errorf("got %+v, %v; want %+v", got, err, m)
	}
}

// TestAliases: bytes are parts of the message that can't grow into it, strings are copies.
func TestAliases(t *testing.T) {
	b := unhex(t, "04"+message+"00 0161 03474554 012f 00 01 0141 00")
	m, err := rp.RunnerBound.Decode(rp.V6, b)
	if err != nil {
		t.Fatal(err)
	}
	start := m.(rp.ToActor).Body.(rp.RequestStart)
	_ = append(start.Body, 0xff)
	if b[len(b)-1] != 0 {
		t.Error("appending to the body overwrote the message")
	}
	for i := range b {
		b[i] = 'B'
	}
	if start.Actor != "a" || start.Method != "GET" || string(start.Body) != "B" {
		t.Errorf("after a change of the input: %q, %q, body %q", start.Actor, start.Method, start.Body)
	}
}

func TestTunnelID(t *testing.T) {
	if got, want := tunnel.String(), "67773031/00000003"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
