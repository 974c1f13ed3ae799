package main

import (
	"context"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/queue"
)

// TestQueueUnreadable lists what can't be read, and shows it as nobody's next message.
func TestQueueUnreadable(t *testing.T) {
	store := t.TempDir() + "/data"
	must(t, "put", store, "shop", "k", "v")
	must(t, "queue", "send", store, "shop", "order", "1")
	err := own(t.Context(), target{url: store, actor: "shop"}, func(a *actorstore.Actor) error {
		return a.Put(context.Background(), actorstore.AppendQueueMessage(nil, 1), []byte{4, 0, 9})
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, "queue", "send", store, "shop", "order", "2")
	lines := strings.Split(must(t, "queue", "ls", store, "shop"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "1\t\t\t\t0\t3\t\tbare: malformed") || !strings.HasPrefix(lines[1], "2\torder\tready") {
		t.Errorf("got %q", lines)
	}
	if got := must(t, "queue", "peek", store, "shop", "--limit", "0"); !strings.HasPrefix(got, "2\torder") {
		t.Errorf("got %q", got)
	}
	if got := must(t, "queue", "stats", store, "shop"); !strings.HasPrefix(got, "\t1\t0\t0\t0\t1\t3\t\n") {
		t.Errorf("got %q", got)
	}
}

func TestBodyCell(t *testing.T) {
	for _, c := range []struct {
		body queue.Raw
		want string
		kind cellKind
	}{
		{queue.Raw{0xf7}, "null", cellJSON},
		{queue.Raw{0xf6}, "null", cellJSON},
		{queue.Raw{0x42, 0, 1}, `"AAE="`, cellJSON},
		{queue.Raw{0xb9, 0, 1, 0x61, 'a', 1}, `{"a":1}`, cellJSON},
		{queue.Raw{0xff}, "\xff", cellBlob},
	} {
		if got := bodyCell(c.body); string(got.text) != c.want || got.kind != c.kind {
			t.Errorf("%x: got %q of kind %d, want %q", []byte(c.body), got.text, got.kind, c.want)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for _, text := range []string{"", "{", "[1", `{"a"`, `{"a":`, "[1,]", "{1:2}", "1 1", "nul", "1e999", `{"a":1}}`} {
		if v, err := parseJSON([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}
