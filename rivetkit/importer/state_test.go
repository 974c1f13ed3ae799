package importer_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/bare"
	"github.com/greenroomdb/greenroom/rivetkit/importer"
)

// roomState and roomAlarm are what RivetKit 2.1.5 has written of an actor.
const (
	roomState = "0300103230666539326337323431663132633904726f6f6d0206676f6c64656e03612f62006892a803a2010000" +
		"01ab92a803a201000001ab92a803a20100000169ada803a201000000"
	roomAlarm = "03001032306665393263373234316631326339e7eef0d1ad34"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A file is a state in the order of its fields.
type file struct {
	id, name                             string
	key                                  []string
	entries                              []importer.Entry
	created                              uint64
	started, connectable, slept, destroy *uint64
}

// append appends the file of f with a version.
func (f *file) append(dst []byte, version uint16) []byte {
	dst = bare.AppendString(bare.AppendString(bare.AppendVersion(dst, version), f.id), f.name)
	dst = bare.AppendUint(dst, uint64(len(f.key)))
	for _, part := range f.key {
		dst = bare.AppendString(dst, part)
	}
	dst = bare.AppendUint(dst, uint64(len(f.entries)))
	for _, e := range f.entries {
		dst = bare.AppendData(bare.AppendData(dst, e.Key), e.Value)
	}
	dst = bare.AppendU64(dst, f.created)
	for _, at := range []*uint64{f.started, f.connectable, f.slept, f.destroy} {
		if dst = bare.AppendBool(dst, at != nil); at != nil {
			dst = bare.AppendU64(dst, *at)
		}
	}
	return dst
}

func TestState(t *testing.T) {
	got, err := importer.ParseState(unhex(t, roomState))
	want := importer.State{
		ID: "20fe92c7241f12c9", Name: "room", Key: []string{"golden", "a/b"},
		Created: 0x1a203a89268, Started: 0x1a203a892ab, Slept: 0x1a203a8ad69,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if name := got.ActorName(); name != `room/golden/a\/b` {
		t.Errorf("the actor is %s", name)
	}
	id, at, err := importer.ParseAlarm(unhex(t, roomAlarm))
	if id != want.ID || at < want.Slept || err != nil {
		t.Errorf("%s %d %v", id, at, err)
	}
}

// older is a state with keys in it, as older versions have written it.
func older() *file {
	ended := uint64(5)
	return &file{
		id: "a", name: "room", key: []string{}, created: 7, destroy: &ended,
		entries: []importer.Entry{{Key: []byte{1}, Value: []byte("state")}, {Key: []byte{4, 'k'}, Value: nil}},
	}
}

func TestOlderState(t *testing.T) {
	s, err := importer.ParseState(older().append(nil, 3))
	if err != nil || !s.Destroyed || s.Created != 7 || len(s.Entries) != 2 || string(s.Entries[0].Value) != "state" || s.Entries[0].Size != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	if name := s.ActorName(); name != "room//" {
		t.Errorf("the actor is %s", name)
	}
}

// TestDamage cuts the files at every length, lengthens them, and changes their versions.
func TestDamage(t *testing.T) {
	alarm := func(b []byte) error { _, _, err := importer.ParseAlarm(b); return err }
	state := func(b []byte) error { _, err := importer.ParseState(b); return err }
	for _, c := range []struct {
		name  string
		b     []byte
		parse func([]byte) error
	}{
		{"state", unhex(t, roomState), state}, {"older state", older().append(nil, 3), state}, {"alarm", unhex(t, roomAlarm), alarm},
	} {
		for n := range c.b {
			if err := c.parse(c.b[:n]); !errors.Is(err, bare.ErrMalformed) {
				t.Errorf("%s of %d bytes: %v", c.name, n, err)
			}
		}
		if err := c.parse(append(bytes.Clone(c.b), 0)); !errors.Is(err, bare.ErrMalformed) {
			t.Errorf("%s with a byte more: %v", c.name, err)
		}
		for _, version := range []byte{0, 1, 2, 4, 255} {
			b := bytes.Clone(c.b)
			b[0] = version
			if err := c.parse(b); !errors.Is(err, importer.ErrVersion) {
				t.Errorf("%s of version %d: %v", c.name, version, err)
			}
		}
	}
	late := &file{id: "a", created: 1 << 63}
	if err := state(late.append(nil, 3)); !errors.Is(err, bare.ErrMalformed) {
		t.Errorf("a time of 64 bits: %v", err)
	}
}

// FuzzState parses any bytes. What is a state is the same bytes when it is written again, but for the times that
// aren't kept.
func FuzzState(f *testing.F) {
	f.Add(unhex(f, roomState))
	f.Add(older().append(nil, 3))
	f.Add([]byte{3, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := importer.ParseState(b)
		if err != nil {
			return
		}
		again := (&file{id: s.ID, name: s.Name, key: s.Key, entries: s.Entries, created: uint64(s.Created)}).append(nil, 3)
		if again = again[:len(again)-4]; !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v, which is %x", b, s, again)
		}
		_ = s.ActorName()
	})
}
