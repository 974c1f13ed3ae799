package runnerproto_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
	for _, g := range slices.Concat(toEngine, fromEnvoy) {
		testGolden(t, rp.EngineBound, g)
	}
	for _, g := range slices.Concat(toRunner, toEnvoy) {
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
		{true, rp.Envoy6, "0c", "message of no kind: bare: malformed at byte 0: invalid tag 12 of 12"},
		{true, rp.Envoy8, "0f", "message of no kind: bare: malformed at byte 0: invalid tag 15 of 15"},
		{true, rp.Envoy6, "00 02", "RunnerInit: bare: malformed at byte 1: bool is 2"},
		{true, rp.Envoy6, "06" + message + "07", "FromActor: bare: malformed at byte 11: invalid tag 7 of 7"},
		{true, rp.Envoy8, "06" + message + "09", "invalid tag 9 of 9"},
		{true, rp.Envoy6, "06" + message + "02 00 00", "2 bytes remain"},
		{true, rp.Envoy8, "06" + message + "02 04 00", "invalid tag 4 of 4"},
		{true, rp.Envoy8, "07 07000000 0161 01 010000", "GetPages: bare: malformed at byte 8: 4 bytes wanted, 3 left"},
		{true, rp.Envoy8, "07 07000000 0161 00 02 00", "GetPages: bare: malformed at byte 8: bool is 2"},
		{true, rp.Envoy8, "07 07000000 0161 818004", "count 65537, limit 65536"},
		{true, rp.Envoy8, "08 07000000 0161 01 03000000 ff20 00", "Commit: bare: malformed at byte 12: length 4223, 1 bytes left"},
		{true, rp.Envoy8, "09 07000000 0161" + fence + "00", "BeginStage: bare: malformed at byte 25: 1 bytes remain"},
		{true, rp.Envoy8, "0a 07000000 0161 00 0a000000000000", "StageSegment: bare: malformed at byte 8: 8 bytes wanted, 7 left"},
		{true, rp.Envoy8, "0c 07000000" + database + "01ff", "Exec: bare: malformed at byte 17: str is not valid UTF-8"},
		{true, rp.Envoy6, "0a 07000000" + database + "0178 01 01 05", "Execute: bare: malformed at byte 21: invalid tag 5 of 5"},
		{true, rp.Envoy6, "0a 07000000" + database + "0178 01 01 02 00", "8 bytes wanted, 1 left"},
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
		{false, rp.V7, "06 07000000 00 00 00", "message of no kind: bare: malformed at byte 0: invalid tag 6 of 6"},
		{false, rp.Envoy6, "0b", "invalid tag 11 of 11"},
		{false, rp.Envoy8, "0e", "invalid tag 14 of 14"},
		{false, rp.Envoy6, "01 01" + checkpoint + "01 05", "invalid tag 5 of 5"},
		{false, rp.Envoy6, "04" + message + "06", "invalid tag 6 of 6"},
		{false, rp.Envoy8, "04" + message + "08", "invalid tag 8 of 8"},
		{false, rp.Envoy8, "06 07000000 02", "Reply of Pages: bare: malformed at byte 5: bool is 2"},
		{false, rp.Envoy8, "06 07000000 00 01 03000000 02", "Reply of Pages: bare: malformed at byte 11: bool is 2"},
		{false, rp.Envoy8, "07 07000000 01 0167 0163 01ff", "Reply of Committed: bare: malformed at byte 10: str is not valid UTF-8"},
		{false, rp.Envoy6, "09 07000000 00 00 01 01 05", "Reply of Result: bare: malformed at byte 9: invalid tag 5 of 5"},
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
	for _, m := range []rp.ToRunner{
		rp.Commands{{}}, answer(nil), toActor(nil), answer(rp.KVError{Message: bad}), command(rp.StopActor{Reason: 5}),
		toActor(rp.RequestAbort{Reason: rp.AbortReason{Kind: 4}}), rp.Reply[rp.Pages]{Err: &rp.SQLiteError{Code: bad}},
		reply(rp.Table{Rows: [][]rp.Value{{1}}}), // an int
	} {
		if b, err := rp.RunnerBound.Append(dst, rp.Envoy8, m); !errors.Is(err, rp.ErrMalformed) || string(b) != "before" {
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
		"rows of no values":             append(unhex(t, "0b 07000000 00 00 808008"), make([]byte, 128<<10)...),
		"many rows that end early":      append(unhex(t, "0b 07000000 00 00 808008 ffff03"), make([]byte, 128<<10)...),
		"a batch without statements":    append(unhex(t, "0e 07000000 00 00 0000000000000000 808004"), make([]byte, 128<<10)...),
		"results without rows":          append(unhex(t, "0d 07000000 00 80f003"), make([]byte, 63488)...),
		"a list longer than it":         unhex(t, "05 0161 07000000 00 808004"),
		"long lists that end early":     append(unhex(t, "01 80f003"), make([]byte, 63488)...),
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range all {
				bounded(t, len(b), func() { rp.EngineBound.Decode(v, b) })
				bounded(t, len(b), func() { rp.RunnerBound.Decode(v, b) })
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for v := range rp.Version(255) {
		known := slices.Contains(all, v)
		for _, parse := range []func(string) (rp.Version, error){rp.ParseVersion, rp.ParseEnvoyVersion} {
			if got, err := parse(v.String()); (err != nil || got.String() != v.String()) && !errors.Is(err, rp.ErrVersion) {
				t.Errorf("parsed %q as %d, %v", v, got, err)
			} else if err == nil && !slices.Contains(all, got) {
				t.Errorf("parsed %q as %d, which is unknown", v, got)
			}
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
	for _, c := range []struct {
		text          string
		runner, envoy rp.Version // 0 if it is unknown
	}{
		{"5", rp.V5, 0}, {"6", rp.V6, rp.Envoy6}, {"7", rp.V7, 0}, {"8", 0, rp.Envoy8},
		{"4", 0, 0}, {"9", 0, 0}, {"106", 0, 0}, {"", 0, 0}, {"6 ", 0, 0}, {"+6", 0, 0}, {"06", 0, 0}, {"six", 0, 0},
	} {
		if v, err := rp.ParseVersion(c.text); v != c.runner || (v == 0) != errors.Is(err, rp.ErrVersion) {
			t.Errorf("ParseVersion(%q) = %d, %v", c.text, v, err)
		}
		if v, err := rp.ParseEnvoyVersion(c.text); v != c.envoy || (v == 0) != errors.Is(err, rp.ErrVersion) {
			t.Errorf("ParseEnvoyVersion(%q) = %d, %v", c.text, v, err)
		}
	}
	for _, v := range old {
		if b, err := rp.EngineBound.Append(nil, v, ask(rp.KVDeleteRange{})); !errors.Is(err, rp.ErrVersion) || errors.Is(err, rp.ErrMalformed) {
			t.Errorf("KVDeleteRange in version %v: %x, %v", v, b, err)
		}
	}
}

// TestLacking: what a version lacks isn't encoded, and the error names the version that it needs.
func TestLacking(t *testing.T) {
	for _, c := range []struct {
		v     rp.Version
		m     rp.ToEngine
		lacks string
	}{
		{rp.V7, rp.Commit{}, "Commit needs the envoy protocol 6, this connection has the runner protocol 7"},
		{rp.V6, rp.Execute{}, "Execute needs the envoy protocol 6"},
		{rp.Envoy6, rp.BeginStage{}, "BeginStage needs the envoy protocol 8, this connection has the envoy protocol 6"},
		{rp.Envoy6, rp.StageSegment{Pages: pages}, "StageSegment needs the envoy protocol 8"},
		{rp.Envoy6, rp.FinishStage{}, "FinishStage needs the envoy protocol 8"},
		{rp.Envoy6, fromActor(rp.RequestWindow{}), "RequestWindow needs the envoy protocol 8"},
		{rp.Envoy6, fromActor(rp.BodyCancel{}), "BodyCancel needs the envoy protocol 8"},
	} {
		b, err := rp.EngineBound.Append([]byte("before"), c.v, c.m)
		testLacking(t, c.m, b, err, c.lacks)
	}
	start := rp.StartActor{Preloaded: rp.Some(rp.PreloadedKV{})}
	for _, c := range []struct {
		v     rp.Version
		m     rp.ToRunner
		lacks string
	}{
		{rp.V7, command(start), "PreloadedKV needs the envoy protocol 6"},
		{rp.V7, reply(rp.Pages{}), "Reply of Pages needs the envoy protocol 6"},
		{rp.Envoy6, failed[rp.StageBegun](), "Reply of StageBegun needs the envoy protocol 8"},
		{rp.Envoy6, reply(rp.SegmentStaged{}), "Reply of SegmentStaged needs the envoy protocol 8"},
		{rp.Envoy6, reply(rp.StageFinished{}), "Reply of StageFinished needs the envoy protocol 8"},
		{rp.Envoy6, toActor(rp.BodyCancel{}), "BodyCancel needs the envoy protocol 8"},
		{rp.Envoy6, toActor(rp.ResponseWindow{}), "ResponseWindow needs the envoy protocol 8"},
		{rp.Envoy6, toActor(rp.RequestStart{Generation: rp.Some[uint32](0)}), "the actor's generation needs the envoy protocol 8"},
		{rp.Envoy6, toActor(rp.RequestStart{StreamResponse: true}), "StreamResponse needs the envoy protocol 8"},
		{rp.Envoy6, toActor(rp.SocketOpen{Generation: rp.Some[uint32](1)}), "the actor's generation needs the envoy protocol 8"},
		{rp.V7, toActor(rp.RequestAbort{Actor: rp.Some("a")}), "the actor of an abort needs the envoy protocol 8"},
	} {
		b, err := rp.RunnerBound.Append([]byte("before"), c.v, c.m)
		testLacking(t, c.m, b, err, c.lacks)
	}
}

func testLacking(t *testing.T, m any, b []byte, err error, lacks string) {
	t.Helper()
	if !errors.Is(err, rp.ErrVersion) || errors.Is(err, rp.ErrMalformed) || !strings.Contains(err.Error(), lacks) || string(b) != "before" {
		t.Errorf("%+v: %q, %v, want %q", m, b, err, lacks)
	}
}

// TestNotWritten: the fields that say that they aren't written in a version aren't.
func TestNotWritten(t *testing.T) {
	abort := rp.AbortReason{Kind: rp.AbortCancelled, Detail: rp.Some("d")}
	init := rp.EngineInit{RunnerID: "r", LostThreshold: 1, StopThreshold: 2, DrainGrace: rp.Some[int64](3), MaxResponse: 4}
	for _, c := range []struct {
		v       rp.Version
		m, want rp.ToRunner
	}{
		{rp.V5, init, rp.EngineInit{RunnerID: "r", LostThreshold: 1}},
		{rp.V7, init, rp.EngineInit{RunnerID: "r", LostThreshold: 1, StopThreshold: 2, DrainGrace: init.DrainGrace}},
		{rp.Envoy6, init, rp.EngineInit{LostThreshold: 1, StopThreshold: 2, MaxResponse: 4}},
		{rp.V7, command(rp.StopActor{Reason: rp.StopLost}), command(rp.StopActor{})},
		{rp.Envoy6, toActor(rp.RequestAbort{Reason: abort}), toActor(rp.RequestAbort{})},
	} {
		testNotWritten(t, rp.RunnerBound, c.v, c.m, c.want)
	}
	testNotWritten[rp.ToEngine](t, rp.EngineBound, rp.Envoy6, fromActor(rp.ResponseAbort{Reason: abort}), fromActor(rp.ResponseAbort{}))
	testNotWritten[rp.ToEngine](t, rp.EngineBound, rp.Envoy8, rp.RunnerInit{Name: "n", Version: 1, TotalSlots: 2}, rp.RunnerInit{})
}

func testNotWritten[M any](t *testing.T, d rp.Direction[M], v rp.Version, m, want M) {
	t.Helper()
	b, err := d.Append(nil, v, m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Decode(v, b); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("version %v: got %+v, %v; want %+v", v, got, err, want)
	}
}

// TestRows: rows, unlike other lists, are bounded by the size of the message alone.
func TestRows(t *testing.T) {
	m := reply(rp.Table{Columns: []string{"x"}, Rows: make([][]rp.Value, maxCount+1)})
	for i := range m.Result.Rows {
		m.Result.Rows[i] = []rp.Value{int64(i)}
	}
	b, err := rp.RunnerBound.Append(nil, rp.Envoy8, m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rp.RunnerBound.Decode(rp.Envoy8, b); err != nil || !reflect.DeepEqual(got, rp.ToRunner(m)) {
		t.Errorf("%d rows: %v", len(m.Result.Rows), err)
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
