package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/rollout"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// TestBulkHeld: actors that hosts have are no canaries, and are tried last; not after a canary has failed.
func TestBulkHeld(t *testing.T) {
	store, err := storeurl.Open(t.Context(), t.TempDir(), greenroom.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 6 {
		a, err := store.Actor(t.Context(), fmt.Sprintf("notes/%d", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.Label("made", "1") }), a.Close()); err != nil {
			t.Fatal(err)
		}
	}
	held := &actorstore.InUseError{Host: actorstore.HostInfo{ID: actorstore.HostID{1}}}
	for name, tt := range map[string]struct {
		held, bad []string
		want      []string // the actors that are tried, in order
		says      string
	}{
		"nothing fails":             {[]string{"0", "1"}, nil, []string{"0", "1", "2", "3", "4", "5", "0", "1"}, ""},
		"the next one is a canary":  {[]string{"0", "1"}, []string{"2"}, []string{"0", "1", "2"}, "1 of 6 actors failed, and 5 were not tried"},
		"the last one is a canary":  {[]string{"0", "1", "2", "3", "4", "5"}, []string{"0"}, []string{"0", "1", "2", "3", "4", "5", "0"}, "1 of 6 actors failed, and 5 were not tried"},
		"others may fail afterward": {[]string{"0"}, []string{"0", "3"}, []string{"0", "1", "2", "3", "4", "5", "0"}, "2 of 6 actors failed"},
	} {
		var stdout, stderr strings.Builder
		b := &bulk{env: &env{stdout: &stdout, stderr: &stderr}, how: rollout.Options{Canary: 1}, skip: func(*greenroom.ActorInfo) bool { return false }}
		b.Prefix = "notes/" // by name
		var tried []string
		err := b.each(t.Context(), opened{Store: store}, func(_ opened, actor string) error {
			key := strings.TrimPrefix(actor, "notes/")
			first := !slices.Contains(tried, key)
			tried = append(tried, key)
			switch {
			case first && slices.Contains(tt.held, key):
				return held
			case slices.Contains(tt.bad, key):
				return errors.New("no")
			}
			return nil
		})
		says := ""
		if err != nil {
			says = err.Error()
		}
		if !slices.Equal(tried, tt.want) || !strings.Contains(says, tt.says) || (err != nil) != (tt.says != "") {
			t.Errorf("%s: tried %v, want %v; %v, %s", name, tried, tt.want, err, stderr.String())
		}
	}
}
