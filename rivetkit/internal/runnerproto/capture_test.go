package runnerproto_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A capture is one message between a program with RivetKit 2.1.5 and a test engine, in version 6.
type capture struct {
	Dir  string // fromRunner or intoRunner
	Hex  string
	Says any // its fields by the names of RivetKit's schema
}

const (
	fromRunner = "from runner"
	intoRunner = "to runner"
)

// captured returns the messages of all files.
func captured(t testing.TB) (all []capture) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) != 7 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(unzipped); ; {
			var c capture
			err := lines.Decode(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, c)
		}
	}
	return all
}

// TestCaptures: each message decodes to what its line says, and encodes to the same bytes. All versions have the
// same bytes for these messages, except that EngineInit is shorter in version 5.
func TestCaptures(t *testing.T) {
	all := captured(t)
	if len(all) != 455 {
		t.Errorf("%d messages", len(all))
	}
	for _, c := range all {
		for _, v := range []rp.Version{rp.V5, rp.V6, rp.V7} {
			switch c.Dir {
			case fromRunner:
				testCapture(t, rp.EngineBound, c, v, sayToEngine)
			case intoRunner:
				if v != rp.V5 || c.Says.(object)["tag"] != "ToClientInit" {
					testCapture(t, rp.RunnerBound, c, v, sayToRunner)
				}
			default:
				t.Errorf("direction %q", c.Dir)
			}
		}
	}
}

func testCapture[M any](t *testing.T, d rp.Direction[M], c capture, v rp.Version, say func(M) any) {
	t.Helper()
	b := unhex(t, c.Hex)
	m, err := d.Decode(v, b)
	if err != nil {
		t.Errorf("version %v, %s: %v", v, c.Hex, err)
		return
	}
	if got := say(m); !reflect.DeepEqual(got, c.Says) {
		t.Errorf("version %v, %s says\n%v, want\n%v", v, c.Hex, got, c.Says)
	}
	if got, err := d.Append(nil, v, m); err != nil || !bytes.Equal(got, b) {
		t.Errorf("version %v, %s encodes as\n%x, %v", v, c.Hex, got, err)
	}
	for n := range b {
		if _, err := d.Decode(v, b[:n]); !errors.Is(err, rp.ErrMalformed) {
			t.Errorf("version %v, the first %d bytes of %s: %v", v, n, c.Hex, err)
		}
	}
}

// The functions below write a message as the captures do: a union is {tag, val}, a number of 64 bits is text with an n
// at its end, and bytes are x'hexadecimal'.

type object = map[string]any

func union(tag string, val any) object { return object{"tag": tag, "val": val} }
func long(n int64) any                 { return fmt.Sprintf("%dn", n) }
func data(b []byte) any                { return fmt.Sprintf("x'%x'", b) }
func str(s string) any                 { return s }

func small[T uint8 | uint16 | uint32](n T) any { return float64(n) }

func optional[T any](o rp.Optional[T], say func(T) any) any {
	if !o.Set {
		return nil
	}
	return say(o.Value)
}

func body(b []byte) any {
	if b == nil {
		return nil
	}
	return data(b)
}

func list[T any](l []T, say func(T) any) any {
	all := []any{}
	for _, v := range l {
		all = append(all, say(v))
	}
	return all
}

func headers(l []rp.Header) any {
	all := object{}
	for _, h := range l {
		all[h.Name] = h.Value
	}
	return all
}

func sayCheckpoint(c rp.Checkpoint) any {
	return object{"actorId": c.Actor, "generation": small(c.Generation), "index": long(c.Index)}
}

func sayTunnel(id rp.TunnelID) object {
	return object{"gatewayId": data(id.Gateway[:]), "requestId": data(id.Request[:])}
}

func sayMessageID(id rp.MessageID) any {
	all := sayTunnel(id.Tunnel)
	all["messageIndex"] = small(id.Index)
	return all
}

func sayToEngine(m rp.ToEngine) any {
	switch m := m.(type) {
	case rp.RunnerInit:
		names := object{}
		for _, n := range m.ActorNames {
			names[n.Name] = object{"metadata": n.Metadata}
		}
		return union("ToServerInit", object{"name": m.Name, "version": small(m.Version), "totalSlots": small(m.TotalSlots),
			"prepopulateActorNames": names, "metadata": optional(m.Metadata, str)})
	case rp.Events:
		return union("ToServerEvents", list(m, sayEvent))
	case rp.Stopping:
		return union("ToServerStopping", nil)
	case rp.Pong:
		return union("ToServerPong", object{"ts": long(m.At)})
	case rp.KVRequest:
		return union("ToServerKvRequest", object{"actorId": m.Actor, "requestId": small(m.ID), "data": sayKVRequest(m.Body)})
	case rp.FromActor:
		return union("ToServerTunnelMessage", object{"messageId": sayMessageID(m.ID), "messageKind": sayFromActor(m.Body)})
	}
	return fmt.Sprintf("%T", m)
}

func sayEvent(e rp.Event) any {
	var inner any
	switch b := e.Body.(type) {
	case rp.Intent:
		tag := map[rp.Intent]string{rp.IntentSleep: "ActorIntentSleep", rp.IntentStop: "ActorIntentStop"}[b]
		inner = union("EventActorIntent", object{"intent": union(tag, nil)})
	case rp.Running:
		inner = union("EventActorStateUpdate", object{"state": union("ActorStateRunning", nil)})
	case rp.Stopped:
		code := map[rp.StopCode]string{rp.StopOK: "Ok"}[b.Code]
		stopped := union("ActorStateStopped", object{"code": code, "message": optional(b.Message, str)})
		inner = union("EventActorStateUpdate", object{"state": stopped})
	case rp.SetAlarm:
		inner = union("EventActorSetAlarm", object{"alarmTs": optional(b.At, long)})
	}
	return object{"checkpoint": sayCheckpoint(e.Checkpoint), "inner": inner}
}

func sayKVRequest(b rp.KVRequestBody) any {
	switch b := b.(type) {
	case rp.KVGet:
		return union("KvGetRequest", object{"keys": list(b.Keys, data)})
	case rp.KVList:
		query := b.Query.(rp.KVPrefix)
		return union("KvListRequest", object{"query": union("KvListPrefixQuery", object{"key": data(query.Prefix)}),
			"reverse": optional(b.Reverse, func(v bool) any { return v }), "limit": optional(b.Limit, func(v uint64) any { return long(int64(v)) })})
	case rp.KVPut:
		return union("KvPutRequest", object{"keys": list(b.Pairs, func(p rp.KVPair) any { return data(p.Key) }),
			"values": list(b.Pairs, func(p rp.KVPair) any { return data(p.Value) })})
	case rp.KVDelete:
		return union("KvDeleteRequest", object{"keys": list(b.Keys, data)})
	}
	return fmt.Sprintf("%T", b)
}

func sayFromActor(b rp.FromActorBody) any {
	switch b := b.(type) {
	case rp.ResponseStart:
		return union("ToServerResponseStart", object{"status": small(b.Status), "headers": headers(b.Headers), "body": body(b.Body), "stream": b.Stream})
	case rp.SocketAccept:
		return union("ToServerWebSocketOpen", object{"canHibernate": b.CanHibernate})
	case rp.SocketMessage:
		return union("ToServerWebSocketMessage", object{"data": data(b.Data), "binary": b.Binary})
	case rp.SocketAck:
		return union("ToServerWebSocketMessageAck", object{"index": small(b.Index)})
	case rp.ActorClose:
		return union("ToServerWebSocketClose", object{"code": optional(b.Code, small), "reason": optional(b.Reason, str), "hibernate": b.Hibernate})
	}
	return fmt.Sprintf("%T", b)
}

func sayToRunner(m rp.ToRunner) any {
	switch m := m.(type) {
	case rp.EngineInit:
		return union("ToClientInit", object{"runnerId": m.RunnerID, "metadata": object{"runnerLostThreshold": long(m.LostThreshold),
			"actorStopThreshold": long(m.StopThreshold), "serverlessDrainGracePeriod": optional(m.DrainGrace, long)}})
	case rp.Commands:
		return union("ToClientCommands", list(m, sayCommand))
	case rp.AckEvents:
		return union("ToClientAckEvents", object{"lastEventCheckpoints": list(m, sayCheckpoint)})
	case rp.KVResponse:
		return union("ToClientKvResponse", object{"requestId": small(m.ID), "data": sayKVResponse(m.Body)})
	case rp.ToActor:
		return union("ToClientTunnelMessage", object{"messageId": sayMessageID(m.ID), "messageKind": sayToActor(m.Body)})
	case rp.Ping:
		return union("ToClientPing", object{"ts": long(m.At)})
	}
	return fmt.Sprintf("%T", m)
}

func sayCommand(c rp.Command) any {
	inner := union("CommandStopActor", nil)
	if s, ok := c.Body.(rp.StartActor); ok {
		inner = union("CommandStartActor", object{
			"config":              object{"name": s.Name, "key": optional(s.Key, str), "createTs": long(s.CreatedAt), "input": body(s.Input)},
			"hibernatingRequests": list(s.Hibernating, func(id rp.TunnelID) any { return sayTunnel(id) }),
		})
	}
	return object{"checkpoint": sayCheckpoint(c.Checkpoint), "inner": inner}
}

func sayKVResponse(b rp.KVResponseBody) any {
	switch b := b.(type) {
	case rp.KVGot:
		return union("KvGetResponse", sayEntries(b.Entries))
	case rp.KVListed:
		return union("KvListResponse", sayEntries(b.Entries))
	case rp.KVPutDone:
		return union("KvPutResponse", nil)
	case rp.KVDeleted:
		return union("KvDeleteResponse", nil)
	}
	return fmt.Sprintf("%T", b)
}

func sayEntries(l []rp.KVEntry) any {
	return object{
		"keys":   list(l, func(e rp.KVEntry) any { return data(e.Key) }),
		"values": list(l, func(e rp.KVEntry) any { return data(e.Value) }),
		"metadata": list(l, func(e rp.KVEntry) any {
			return object{"version": data(e.Version), "updateTs": long(e.UpdatedAt)}
		}),
	}
}

func sayToActor(b rp.ToActorBody) any {
	switch b := b.(type) {
	case rp.RequestStart:
		return union("ToClientRequestStart", object{"actorId": b.Actor, "method": b.Method, "path": b.Path,
			"headers": headers(b.Headers), "body": body(b.Body), "stream": b.Stream})
	case rp.SocketOpen:
		return union("ToClientWebSocketOpen", object{"actorId": b.Actor, "path": b.Path, "headers": headers(b.Headers)})
	case rp.SocketMessage:
		return union("ToClientWebSocketMessage", object{"data": data(b.Data), "binary": b.Binary})
	case rp.ClientClose:
		return union("ToClientWebSocketClose", object{"code": optional(b.Code, small), "reason": optional(b.Reason, str)})
	}
	return fmt.Sprintf("%T", b)
}
