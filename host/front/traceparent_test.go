package front

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/traces"
)

// Ids that a caller has.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
)

// TestTraceparent: the span of a call's turn is a child of the caller's span, and has no
// parent if the header is malformed.
func TestTraceparent(t *testing.T) {
	const page = "https://shop.example"
	r := newRig(t, Options{Origins: []string{page}})
	_, _, asked := r.do("OPTIONS", "/actors/room/a/actions/add", "", "Origin", page, "Access-Control-Request-Method", "POST")
	if got := asked.Get("Access-Control-Allow-Headers"); !strings.Contains(got, "Traceparent") {
		t.Errorf("pages may send %q", got)
	}
	r.close()
	r.hopts.Traces = &greenroom.TracesOptions{}
	r.open()
	const right = "00-" + callersTrace + "-" + callersSpan + "-01"
	for i, c := range []struct {
		headers []string
		taken   bool
	}{
		{nil, false},
		{[]string{right}, true},
		{[]string{right[:53] + "00"}, true},
		{[]string{"cc" + right[2:]}, true},
		{[]string{"cc" + right[2:] + "-what will be"}, true},
		{[]string{"cc" + right[2:] + "what will be"}, false},
		{[]string{right + "-01"}, false},
		{[]string{"ff" + right[2:]}, false},
		{[]string{"0x" + right[2:]}, false},
		{[]string{right[:54]}, false},
		{[]string{right[:53] + "0g"}, false},
		{[]string{strings.ToUpper(right)}, false},
		{[]string{strings.Replace(right, "-b", "_b", 1)}, false},
		{[]string{strings.Replace(right, callersTrace, strings.Repeat("0", 32), 1)}, false},
		{[]string{strings.Replace(right, callersSpan, strings.Repeat("0", 16), 1)}, false},
		{[]string{right, right}, false},
		{[]string{""}, false},
	} {
		key := fmt.Sprintf("k%d", i)
		h := []string{"Content-Type", "application/json"}
		for _, line := range c.headers {
			h = append(h, "traceparent", line)
		}
		if status, answer, _ := r.do("POST", "/actors/room/"+key+"/actions/add", "1", h...); status != 200 || answer != "1" {
			t.Errorf("%q: %d %s", c.headers, status, answer)
		}
		r.close() // so that its spans are stored
		s := r.spanOf(key, "add")
		if taken := s.TraceID.String() == callersTrace && s.Parent.String() == callersSpan; taken != c.taken {
			t.Errorf("%q: the span is %s, of %s", c.headers, s.Parent, s.TraceID)
		}
		if !c.taken && (!s.Parent.IsZero() || s.TraceID.String() == callersTrace) {
			t.Errorf("%q: part of it was taken", c.headers)
		}
		r.open()
	}
}

// spanOf reads the span of an action that a room has run once. The host is closed.
func (r *rig) spanOf(key, action string) *traces.SpanData {
	r.Helper()
	h, err := host.Open(r.Context(), r.engine, r.types, &host.Options{Logger: quiet})
	must(r, err)
	id, err := h.Store().Lower().Lookup(r.Context(), "room/"+key)
	must(r, err)
	v, err := h.Store().Lower().View(r.Context(), id)
	must(r, err)
	res, err := traces.Read(r.Context(), v.Snapshot, traces.Query{Match: func(s *traces.SpanData) bool {
		for _, a := range s.Attributes {
			if a.Key == "rivet.action.name" && a.Value.String() == action {
				return true
			}
		}
		return false
	}}, 0)
	must(r, err)
	must(r, v.Close())
	must(r, h.Close(r.Context()))
	if len(res.Spans) != 1 {
		r.Fatalf("%d spans of %s", len(res.Spans), action)
	}
	return &res.Spans[0]
}

// FuzzTraceparent: what is taken is what stands there.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-" + callersTrace + "-" + callersSpan + "-01")
	f.Add("01-" + callersTrace + "-" + callersSpan + "-00-x")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		trace, span, ok := parseParent(s)
		if !ok {
			return
		}
		if want := "-" + trace.String() + "-" + span.String() + "-"; s[2:flagsAt] != want || trace.IsZero() || span.IsZero() {
			t.Errorf("%q became %q", s, want)
		}
	})
}
