package front

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/host/internal/wire"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestLogCalls: each call is one line of the log, with the trace of its turn.
func TestLogCalls(t *testing.T) {
	r := newRig(t, Options{LogCalls: true})
	r.close()
	r.hopts.Traces = &greenroom.TracesOptions{}
	var log bytes.Buffer // one call at a time writes to it
	r.open()
	r.front.log = slog.New(slog.NewJSONHandler(&log, nil))
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r.post("add", "2", "Traceparent", parent)
	r.post("nothing", "7")
	p := r.join(mediaJSON, wire.Request{})
	p.call("conns", nil)
	testkit.Must(t, p.ws.CloseNow())
	r.close()
	type line struct{ Msg, Actor, Action, Code, Trace, Connection string }
	var lines []line
	for text := range strings.Lines(log.String()) {
		var l line
		testkit.Must(t, json.Unmarshal([]byte(text), &l))
		if l.Msg == "front: call" {
			lines = append(lines, l)
		}
	}
	if len(lines) != 3 || lines[0].Trace != parent[3:35] || lines[0].Code != "ok" || lines[1].Code != "no_such_action" || lines[2].Connection != p.conn || lines[2].Action != "conns" || lines[2].Actor != "room/a" {
		t.Fatalf("the lines are %+v", lines)
	}
	if s := r.spanOf("a", "conns"); s.TraceID.String() != lines[2].Trace || !s.Parent.IsZero() {
		t.Errorf("the span is of the trace %s, and the line has %s", s.TraceID, lines[2].Trace)
	}
}
