package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/persist"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/traces"
)

// observed is a type that does everything of which a span or an event tells.
func observed() *Type {
	ok := func(*Context) error { return nil }
	kind := thing(
		everything, NewAction("later", func(*Context, struct{}) (int, error) { return 0, nil }),
		NewAction("talk", func(c *Context, _ struct{}) (int, error) {
			c.Log().With("k", "v").WithGroup("g").Warn("I talk")
			for _, n := range c.Connections() {
				if err := n.Send("direct", 1); err != nil {
					return 0, err
				}
			}
			return 0, c.Send(Address{"thing", "other"}, queue.Send{Name: "hello"})
		}),
		NewAction("panic", func(*Context, struct{}) (int, error) { panic("oops") }),
		NewAction("part", func(c *Context, _ struct{}) (int, error) {
			for _, n := range c.Connections() {
				if err := n.Disconnect("that's it"); err != nil {
					return 0, err
				}
			}
			return 0, nil
		}),
		NewAction("end", func(c *Context, _ struct{}) (int, error) { return 0, c.Destroy() }),
	)
	kind.Create, kind.Wake, kind.Sleep = ok, ok, ok
	kind.Destroy = func(*Context) error { return errRefused }
	kind.Disconnect = func(*Context, *Conn, string) error { return nil }
	kind.Message = func(*Context, *greenroom.Message) error { return nil }
	kind.Alarm = func(*Context, persist.Event) error { return nil }
	kind.Vars = func(context.Context, Address) (any, error) { return 1, nil }
	kind.Run = func(ctx context.Context) error {
		return Turn(ctx, func(*Context) error { return nil })
	}
	return kind
}

// told prints spans as people would write them down: by their names, with the attributes
// that aren't the actor's own.
func told(spans []traces.SpanData) map[string]string {
	all := map[string]string{}
	attrs := func(as []traces.Attr) (s string) {
		for _, a := range as {
			switch a.Key {
			case "rivet.actor.id", "rivet.actor.name", "rivet.actor.key":
			case "exception.stacktrace", "rivet.conn.id", "rivet.schedule.event_id":
				s += " " + a.Key
			default:
				s += fmt.Sprintf(" %s=%v", a.Key, a.Value)
			}
		}
		return s
	}
	for _, s := range spans {
		text := fmt.Sprintf("%v %v%s", s.Kind, s.Status.Code, attrs(s.Attributes))
		for _, e := range s.Events {
			text += "; " + e.Name + attrs(e.Attributes)
		}
		all[s.Name] = text
	}
	return all
}

// spans reads the spans of an actor from its own keys.
func (r *rig) spans(a Address) (spans []traces.SpanData) {
	r.Helper()
	must(r, r.turn(r.ctx, a, nil, newTurn("test", func(c *Context) error {
		res, err := c.life.traces.Read(c, traces.Query{End: c.Now().Add(time.Hour)})
		if err == nil {
			spans = res.Spans
		}
		return err
	})))
	return spans
}

// TestTraces looks for the spans of an actor's turns in its own keys, with their names,
// attributes and events.
func TestTraces(t *testing.T) {
	var log bytes.Buffer
	opts := Options{Traces: &greenroom.TracesOptions{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, opts, func(r *rig) {
		_, j := r.join()
		r.call(lobby, "everything", false)
		at := time.Now().Add(time.Hour).UnixMilli()
		r.call(lobby, "talk", nil)
		pass(time.Second)
		_, err := invoke[int](r.ctx, r.Host, lobby, "panic", nil)
		wantErr(t, err, ErrPanic)
		trace, span := traces.TraceID{1}, traces.SpanID{2}
		_, err = r.Do(r.ctx, &Call{Actor: lobby, Action: "end", Conn: j.ID, Trace: trace, Span: span})
		wantErr(t, err, errRefused)
		pass(time.Hour)
		r.call(lobby, "part", nil)
		r.reopen()
		all := r.spans(lobby)
		got := told(all)
		conn := " rivet.conn.id rivet.conn.hibernatable=true rivet.conn.type=websocket"
		sent := " messaging.system=greenroom messaging.destination.name=m messaging.operation.name=send messaging.operation.type=send"
		received := "queue.message.receive rivet.queue.name=m rivet.queue.message_id=1 rivet.queue.created_at_ms="
		event := " rivet.schedule.event_id rivet.schedule.action=later rivet.schedule.timestamp_ms=" + fmt.Sprint(at)
		for name, want := range map[string]string{
			"actor.createVars": "1 0", "actor.onCreate": "1 0", "actor.onWake": "1 0", "actor.onSleep": "1 0", "actor.run": "1 0", "actor.turn": "1 0",
			"actor.onConnect": "1 0; connection.connect" + conn,
			"actor.action.everything": "2 0 rivet.action.name=everything rivet.action.scheduled=false" +
				"; queue.message.send rivet.queue.name=m rivet.queue.message_id=1" + sent +
				"; schedule.created" + event + "; message.broadcast rivet.event.name=told",
			"actor.action.talk": "2 0 rivet.action.name=talk rivet.action.scheduled=false; log log.level=warn log.message=I talk" +
				"; message.send" + conn + " rivet.event.name=direct" +
				"; queue.message.send rivet.queue.name=hello greenroom.actor.to=thing/other" + strings.Replace(sent, "=m ", "=hello ", 1),
			"actor.action.later": "1 0 rivet.action.name=later rivet.action.scheduled=true; schedule.triggered" + event,
			"actor.action.panic": "2 2 rivet.action.name=panic rivet.action.scheduled=false error.type=actor_failed" +
				"; actor.crash error.type=actor_failed error.message=host: panic: oops" +
				"; exception exception.type=actor_failed exception.message=host: panic: oops exception.stacktrace",
			"actor.onDestroy": "1 2 error.type=*errors.errorString; exception exception.type=*errors.errorString exception.message=refused",
			"actor.action.end": "2 2 rivet.action.name=end rivet.action.scheduled=false rivet.conn.id error.type=*errors.errorString" +
				"; exception exception.type=*errors.errorString exception.message=refused",
			"actor.action.part":  "2 0 rivet.action.name=part rivet.action.scheduled=false; connection.disconnect" + conn,
			"actor.onDisconnect": "1 0",
		} {
			if got[name] != want {
				t.Errorf("%s: got  %s\n\twant %s", name, got[name], want)
			}
		}
		if !strings.HasPrefix(got["actor.onMessage"], "1 0; "+received) {
			t.Errorf("got %s", got["actor.onMessage"])
		}
		wantParent(t, all, "actor.onDestroy", "actor.action.end")
		wantParent(t, all, "actor.onDisconnect", "actor.action.part")
		wantParent(t, all, "actor.turn", "actor.run")
		i := slices.IndexFunc(all, func(s traces.SpanData) bool { return s.Name == "actor.action.end" })
		if all[i].TraceID != trace || all[i].Parent != span {
			t.Errorf("got %v %v", all[i].TraceID, all[i].Parent)
		}
		if _, ok := told(r.spans(Address{"thing", "other"}))["actor.deliver"]; !ok {
			t.Error("the delivery has no span")
		}
	}, observed())
	for _, want := range []string{"oops", "host.observed", "I talk", "refused"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log.String())
		}
	}
}

// wantParent looks whether some span of one name is a child of one of another.
func wantParent(t *testing.T, all []traces.SpanData, child, parent string) {
	t.Helper()
	for _, c := range all {
		if c.Name != child {
			continue
		}
		for _, p := range all {
			if p.Name == parent && p.SpanID == c.Parent && p.TraceID == c.TraceID {
				return
			}
		}
	}
	t.Errorf("%s is not a child of %s", child, parent)
}

// TestHookPanics: a hook panics within a turn. The turn fails, whatever its action makes of the
// panic, with traces and without.
func TestHookPanics(t *testing.T) {
	for _, o := range []*greenroom.TracesOptions{nil, {}} {
		kind := thing(NewAction("end", func(c *Context, _ struct{}) (int, error) {
			_ = c.Destroy()
			return 1, nil
		}))
		kind.Destroy = func(*Context) error { panic("oops") }
		bubble(t, Options{Traces: o}, func(r *rig) {
			_, err := invoke[int](r.ctx, r.Host, lobby, "end", nil)
			wantErr(t, err, ErrPanic)
		}, kind)
	}
}

// TestPanicsOutsideTurns: the type's code panics where no call waits for it, and the host goes on.
func TestPanicsOutsideTurns(t *testing.T) {
	kind := thing(add, NewAction("after", func(c *Context, _ struct{}) (int, error) {
		c.AfterCommit(func() { panic("after") })
		return 1, nil
	}))
	kind.Run = func(context.Context) error { panic("run") }
	kind.Vars = func(_ context.Context, a Address) (any, error) {
		if a.Key == "broken" {
			panic("vars")
		}
		return closer(func() error { panic("close") }), nil
	}
	bubble(t, Options{}, func(r *rig) {
		if n := r.call(lobby, "after", nil); n != 1 {
			t.Errorf("got %d", n)
		}
		r.call(lobby, "add", 1)
		_, err := invoke[int](r.ctx, r.Host, Address{"thing", "broken"}, "add", 1)
		wantErr(t, err, ErrPanic)
		pass(time.Minute)
		if n := r.call(lobby, "add", 1); n != 2 {
			t.Errorf("the state is %d", n)
		}
	}, kind)
}

type closer func() error

func (c closer) Close() error { return c() }
