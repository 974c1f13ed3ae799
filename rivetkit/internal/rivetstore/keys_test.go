package rivetstore_test

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	rs "github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

func TestActorName(t *testing.T) {
	for _, c := range []struct{ namespace, typ, key, want string }{
		{"default", "counter", "a/b", "counter/a/b"},
		{"default", "counter", "/", "counter//"},
		{"default", "a/b", "c", "a%2Fb/c"},
		{"default", "@x", "c", "%40x/c"},
		{"test-1", "counter", "a", "@test-1/counter/a"},
		{"a/b", "@", "", "@a%2Fb/%40/"},
	} {
		name := rs.ActorName(c.namespace, c.typ, c.key)
		if name != c.want {
			t.Errorf("%q %q %q: %q, not %q", c.namespace, c.typ, c.key, name, c.want)
		}
		namespace, typ, key, ok := rs.ParseActorName(name)
		if !ok || namespace != c.namespace || typ != c.typ || key != c.key {
			t.Errorf("%q: %q %q %q %v", name, namespace, typ, key, ok)
		}
	}
	for _, name := range []string{"", "a", "@a", "@a/b", "@default/a/b", "a%2fb/c", "@/%/c"} {
		if namespace, typ, key, ok := rs.ParseActorName(name); ok {
			t.Errorf("%q is %q %q %q", name, namespace, typ, key)
		}
	}
}

func TestKeys(t *testing.T) {
	id := actorstore.NewID()
	old := append(rs.OldWakes().Start[:len(rs.OldWakes().Start)-1:len(rs.OldWakes().Start)-1], "\x02"+id.String()+"\x00"...)
	if got, ms, err := rs.ParseOldWake(old, rs.AppendTime(nil, 7)); got != id || ms != 7 || err != nil {
		t.Error(got, ms, err)
	}
	if got, err := rs.ParseNamespaceKey(rs.NamespaceKey("a")); got != "a" || err != nil {
		t.Error(got, err)
	}
	if _, _, err := rs.ParseOldWake(rs.NamespaceKey("a"), rs.AppendTime(nil, 7)); err == nil {
		t.Error("a namespace is taken for a time")
	}
	s := rs.Socket{Gateway: [4]byte{1, 2, 3, 4}, Request: [4]byte{5, 6, 7, 8}}
	start, end := rs.SocketRange()
	for _, k := range [][]byte{rs.MessageKey(s, 0), rs.MessageKey(s, 1<<63)} {
		if bytes.Compare(k, start) < 0 || bytes.Compare(k, end) >= 0 || !rs.Own(k) {
			t.Errorf("%x", k)
		}
	}
	if got, n, err := rs.ParseMessageKey(rs.MessageKey(s, 7)); got != s || n != 7 || err != nil {
		t.Error(got, n, err)
	}
	if _, _, err := rs.ParseMessageKey(start); err == nil {
		t.Error("the start of the range is a message")
	}
}

func TestValues(t *testing.T) {
	rec := rs.Record{
		Created: 1, Runner: "r", Generation: 3, Input: []byte{}, Started: 5, Slept: 6, RunnerID: "i", RunnerKey: "k", Doomed: true,
	}
	for _, rec := range []rs.Record{{}, rec} {
		b := rec.Append(nil)
		if got, err := rs.ParseRecord(b); err != nil || !reflect.DeepEqual(got, rec) {
			t.Errorf("%+v %v", got, err)
		}
		for n := range b {
			if _, err := rs.ParseRecord(b[:n]); err == nil {
				t.Errorf("%x is a record", b[:n])
			}
		}
	}
	old, err := hex.DecodeString("0100" + "0100000000000000" + "0172" + "03000000" + "0100" + "0500000000000000" + "0600000000000000")
	want := rs.Record{Created: 1, Runner: "r", Generation: 3, Input: []byte{}, Started: 5, Slept: 6}
	if got, failed := rs.ParseRecord(old); err != nil || failed != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a record of version 1: %+v %v %v", got, err, failed)
	}
	m := rs.Message{Binary: true, Data: []byte("x")}
	if got, err := rs.ParseMessage(m.Append(nil)); err != nil || !reflect.DeepEqual(got, m) {
		t.Error(got, err)
	}
	if ms, err := rs.ParseTime(rs.AppendTime(nil, -7)); ms != -7 || err != nil {
		t.Error(ms, err)
	}
	if _, err := rs.ParseTime([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0}); err == nil {
		t.Error("a newer version is read")
	}
}

// TestHead: the head of a database, and the generation that has run SQL, as they are stored.
func TestHead(t *testing.T) {
	if h, q := rs.HeadKey(), rs.SQLKey(); string(h) != "hh" || string(q) != "hq" {
		t.Errorf("the keys are %q and %q", h, q)
	}
	const want = "0100" + "0807060504030201"
	got := rs.AppendHead(nil, 0x0102030405060708)
	if hex.EncodeToString(got) != want {
		t.Errorf("got %x, want %s", got, want)
	}
	if head, err := rs.ParseHead(got); head != 0x0102030405060708 || err != nil {
		t.Errorf("got %d, %v", head, err)
	}
	for _, bad := range [][]byte{nil, got[:9], append(got, 0), {2, 0}} {
		if _, err := rs.ParseHead(bad); err == nil {
			t.Errorf("%x is read", bad)
		}
	}
}
