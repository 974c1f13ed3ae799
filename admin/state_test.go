package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/admin"
)

// TestSetState: the state is what it is set to, unless it has changed meanwhile, or would lose something.
func TestSetState(t *testing.T) {
	r := newRig(t, admin.Options{})
	set := func(state, before string) error {
		_, err := admin.SetState.Ask(t.Context(), r.client, "room", false, &admin.SetStateIn{State: json.RawMessage(state), Before: json.RawMessage(before)})
		return err
	}
	code := func(err error) string {
		e := &admin.Error{}
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Code
	}
	store := func(raw []byte) {
		r.actor("room", func(a *greenroom.Actor) error {
			return a.Update(t.Context(), func(tx *greenroom.Tx) error { return tx.SetRawState(raw) })
		})
	}
	if got := code(set("1", "")); got != "not_found" {
		t.Errorf("without a state: %q", got)
	}
	const first = `{"a":[1,null,true,"x",-1.5]}`
	r.actor("room", func(a *greenroom.Actor) error {
		return a.Update(t.Context(), func(tx *greenroom.Tx) error {
			var v any
			return errors.Join(json.Unmarshal([]byte(first), &v), greenroom.SetState(tx, v))
		})
	})
	for _, c := range []struct{ state, before, code, now string }{
		{`{"z":1,"a":[ ]}`, first, "", `{"z":1,"a":[]}`},
		{`7`, first, "conflict", `{"z":1,"a":[]}`},
		{`7`, ` {"z": 1, "a":[]} `, "", `7`},
		{`18446744073709551615`, "", "", `18446744073709551615`},
		{`"\u0000'"`, "", "", `"\u0000'"`},
	} {
		err := set(c.state, c.before)
		got := get[admin.State](r, "/v1/actors/room/state")
		if code(err) != c.code || string(got.State) != c.now || !got.Exact {
			t.Errorf("set to %s: %v, it is %+v", c.state, err, got)
		}
	}
	if status, text := r.ask(http.MethodPost, "/v1/actors/room/state/set", `{"state":}`); status != http.StatusBadRequest {
		t.Errorf("a state that is not JSON: %d %s", status, text)
	}
	if status, text := r.ask(http.MethodPost, "/v1/actors/room/state/set", `{}`); status != http.StatusBadRequest {
		t.Errorf("no state: %d %s", status, text)
	}
	for name, raw := range map[string][]byte{"bytes": {0x41, 0x02}, "undefined": {0xf7}, "NaN": {0xf9, 0x7e, 0x00}, "a longer number": {0x18, 0x01}, "a tag": {0xc1, 0x01}} {
		store(raw)
		if got := get[admin.State](r, "/v1/actors/room/state"); got.Exact || code(set("1", "")) != "unsupported" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
