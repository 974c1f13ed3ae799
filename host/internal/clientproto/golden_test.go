package clientproto_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/host/internal/clientproto"
)

// TestGolden: what published clients sent and got is decoded to what it says, and encoded to the
// same bytes again.
func TestGolden(t *testing.T) {
	other := map[string]int{} // how many have other bytes, by reason
	for _, g := range goldens(t) {
		m, v, err := parsers[g.name](g.as, g.client(), g.wire)
		if err != nil {
			t.Errorf("%s of %s in %v: %v\n%s", g.name, g.clients, g.as, err, g.says)
			continue
		}
		if want := g.client(); !fromServer(g.name) && g.as == clientproto.Bare && v != want {
			t.Errorf("%s of %s has version %d, want %d", g.name, g.clients, v, want)
		}
		says, err := m.Append(nil, clientproto.JSON, 0)
		if got, want := string(says), sayNull(g); err != nil || got != want {
			t.Errorf("%s in %v says %s, %v; want\n%s", g.name, g.as, got, err, want)
		}
		to := g.client()
		if _, init := m.(clientproto.Init); init && g.wire[0] == 2 {
			to = 0 // it was sent before the client had sent anything
		}
		again, err := m.Append([]byte("before"), g.as, to)
		if err != nil || !bytes.HasPrefix(again, []byte("before")) {
			t.Errorf("%s in %v: %v", g.name, g.as, err)
			continue
		}
		if again = again[len("before"):]; bytes.Equal(again, g.wire) {
			continue
		}
		why := otherBytes(g)
		if other[why]++; why == "" {
			t.Errorf("%s of %s in %v is encoded as\n%x, want\n%x", g.name, g.clients, g.as, again, g.wire)
		}
		m, _, err = parsers[g.name](g.as, to, again)
		if err != nil {
			t.Errorf("%s in %v isn't decoded again: %v", g.name, g.as, err)
			continue
		}
		if got, err := m.Append(nil, clientproto.JSON, 0); err != nil || string(got) != string(says) {
			t.Errorf("%s in %v is decoded again as %s, %v; want\n%s", g.name, g.as, got, err, says)
		}
	}
	for why, want := range map[string]int{"": 0, noOutput: 3, marked: 9} {
		if other[why] != want {
			t.Errorf("%d messages are encoded to other bytes because %q, want %d", other[why], why, want)
		}
	}
}

// Why a message is encoded to other bytes than it came in.
const (
	// In JSON, RivetKit's server leaves undefined out. A client of 2.3 may refuse that, and
	// null means the same to all.
	noOutput = "it has no output"
	// In the CBOR in BARE, a client of version 4 writes an array with a mark for what CBOR
	// itself has. It reads both.
	marked = "a value has a mark"
)

func otherBytes(g golden) string {
	switch {
	case g.as == clientproto.JSON && g.says != sayNull(g):
		return noOutput
	case g.as == clientproto.Bare && g.client() == 4:
		for _, mark := range []string{"$BigInt", "$Uint8Array", "$Undefined"} {
			if bytes.Contains(g.wire, []byte("\x82"+string(rune(0x60+len(mark)))+mark)) {
				return marked
			}
		}
	}
	return ""
}

// sayNull returns what a golden message says, with null for an output that isn't there.
func sayNull(g golden) string {
	if g.as != clientproto.JSON || strings.Contains(g.says, `"output"`) {
		return g.says
	}
	switch {
	case g.name == "HTTPActionResponse":
		return `{"output":null}`
	case strings.HasPrefix(g.says, `{"body":{"tag":"ActionResponse"`):
		return strings.TrimSuffix(g.says, "}}}") + `,"output":null}}}`
	}
	return g.says
}

// TestOwner: values are parts of the message in BARE and CBOR, where nothing is undone in them,
// and memory of their own in JSON.
func TestOwner(t *testing.T) {
	for _, g := range goldens(t) {
		m, _, err := parsers[g.name](g.as, g.client(), g.wire)
		if err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		for _, v := range values(m) {
			want := g.as != clientproto.JSON && !(g.as == clientproto.Bare && g.client() == 4 && bytes.Contains(g.wire, []byte("$")))
			if got := partOf(g.wire, v); len(v) > 0 && got != want {
				t.Errorf("%s in %v: a value is a part of the message: %v, want %v", g.name, g.as, got, want)
			}
			if len(v) != cap(v) && g.as == clientproto.CBOR {
				t.Errorf("%s: what is appended to a value changes the message", g.name)
			}
		}
	}
}

// TestTruncated: no golden message is one without its last bytes, or with one more.
func TestTruncated(t *testing.T) {
	for _, g := range goldens(t) {
		for n := range g.wire {
			if m, _, err := parsers[g.name](g.as, g.client(), g.wire[:n:n]); !errors.Is(err, clientproto.ErrMalformed) {
				t.Errorf("%d of %d bytes of %s in %v: %v, %v", n, len(g.wire), g.says, g.as, m, err)
			}
		}
		if m, _, err := parsers[g.name](g.as, g.client(), append(bytes.Clone(g.wire), '0')); !errors.Is(err, clientproto.ErrMalformed) {
			t.Errorf("%s and one more byte in %v: %v, %v", g.says, g.as, m, err)
		}
	}
}
