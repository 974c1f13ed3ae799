package runnerproto_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// A capture is one message between a program and an engine.
type capture struct {
	Conn int
	Dir  string // fromRunner or intoRunner
	Hex  string // ends with … where it was too long to keep
	Says any    // its fields by the names of RivetKit's schema; a string where they were too long

	file    string
	version rp.Version
}

const (
	fromRunner = "to engine"
	intoRunner = "to envoy"
)

// whole reports whether the capture has all bytes of the message.
func (c capture) whole() bool { return !strings.HasSuffix(c.Hex, "…") }

// captured returns the messages of all files: those in testdata are between RivetKit 2.1.5 and a test engine, in version 6 of the
// runner protocol, and those in testdata/envoy are between RivetKit 2.3 and its own engine.
func captured(t testing.TB) (all []capture) {
	t.Helper()
	runners, err := filepath.Glob("testdata/*.jsonl.gz")
	envoys, err2 := filepath.Glob("testdata/envoy/*.jsonl.gz")
	if err != nil || err2 != nil || len(runners) != 7 || len(envoys) != 7 {
		t.Fatalf("files %v, %v, %v, %v", runners, envoys, err, err2)
	}
	for _, name := range append(runners, envoys...) {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		connections := map[int]rp.Version{}
		for lines := json.NewDecoder(unzipped); ; {
			var line struct {
				capture
				Upgrade string // the address of a connection that begins
			}
			err := lines.Decode(&line)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c := line.capture
			c.file, c.version, c.Says = filepath.Base(name), rp.V6, plain(c.Says)
			if filepath.Dir(name) == "testdata/envoy" {
				c.version = connection(t, connections, c.Conn, line.Upgrade)
			}
			if line.Upgrade != "" || c.Hex == "" || c.version == 0 {
				continue // HTTP, or a connection of a client
			}
			c.Dir = strings.NewReplacer("from runner", fromRunner, "to runner", intoRunner).Replace(c.Dir)
			all = append(all, c)
		}
	}
	return all
}

// connection returns the version of a connection, which begins if there is an address; 0 if it isn't one of an envoy.
func connection(t testing.TB, known map[int]rp.Version, number int, address string) rp.Version {
	if strings.HasPrefix(address, "/envoys/connect?") {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if known[number], err = rp.ParseEnvoyVersion(u.Query().Get("protocol_version")); err != nil {
			t.Fatal(err)
		}
	}
	return known[number]
}

// plain returns what a line says in the form of testdata/envoy, where a union is {tag: val}.
func plain(says any) any {
	switch says := says.(type) {
	case object:
		if tag, ok := says["tag"].(string); ok && len(says) == 2 {
			if val, ok := says["val"]; ok {
				tag = strings.NewReplacer("ToServer", "ToRivet", "ToClient", "ToEnvoy").Replace(tag)
				return union(tag, plain(val))
			}
		}
		for k, v := range says {
			says[k] = plain(v)
		}
	case []any:
		for i, v := range says {
			says[i] = plain(v)
		}
	case string:
		if digits, ok := strings.CutPrefix(says, "x'"); ok && len(digits) > 2*shown+1 && !strings.Contains(says, "…") {
			return fmt.Sprintf("x'%s…' (%d bytes)", digits[:2*shown], len(digits)/2)
		}
	}
	return says
}

// TestCaptures: each message decodes to what its line says, and encodes to the same bytes. All versions of the runner protocol
// have the same bytes for these messages, except that EngineInit is shorter in version 5. A message that isn't whole decodes
// up to its end.
func TestCaptures(t *testing.T) {
	kinds := map[string]bool{}
	var whole, cut int
	for _, c := range captured(t) {
		if !c.whole() {
			cut++
		} else {
			whole++
		}
		versions := []rp.Version{c.version}
		if c.version == rp.V6 {
			versions = []rp.Version{rp.V5, rp.V6, rp.V7}
		}
		for _, v := range versions {
			switch c.Dir {
			case fromRunner:
				testCapture(t, rp.EngineBound, c, v, sayToEngine, kinds)
			case intoRunner:
				if v != rp.V5 || c.Says.(object)["ToEnvoyInit"] == nil {
					testCapture(t, rp.RunnerBound, c, v, sayToRunner, kinds)
				}
			default:
				t.Errorf("direction %q", c.Dir)
			}
		}
	}
	if whole != 6297 || cut != 132 {
		t.Errorf("%d messages, and %d that aren't whole", whole, cut)
	}
	testKinds(t, kinds)
}

// notCaptured are the kinds of messages in versions of the envoy protocol that no capture has whole.
const notCaptured = `
v6:AckCommands v6:AckEvents v6:Exec v6:Execute v6:ExecuteBatch v6:FromActor:ActorClose v6:FromActor:ResponseAbort
v6:FromActor:ResponseChunk v6:FromActor:SocketAccept v6:FromActor:SocketAck v6:FromActor:SocketMessage
v6:KVRequest:KVDelete v6:KVRequest:KVDeleteRange v6:KVRequest:KVDrop v6:KVResponse:KVDeleted v6:KVResponse:KVDropped
v6:KVResponse:KVError v6:Reply[Pages] v6:Reply[Result] v6:Reply[Result]:error v6:Reply[Results] v6:Reply[Results]:error
v6:Reply[Table] v6:Reply[Table]:error v6:ToActor:ClientClose v6:ToActor:RequestAbort v6:ToActor:RequestChunk
v6:ToActor:SocketMessage v6:ToActor:SocketOpen v8:Exec v8:FromActor:BodyCancel v8:FromActor:RequestWindow
v8:FromActor:ResponseAbort v8:FromActor:ResponseChunk v8:KVRequest:KVDelete v8:KVRequest:KVDeleteRange
v8:KVRequest:KVDrop v8:KVResponse:KVDeleted v8:KVResponse:KVDropped v8:KVResponse:KVError v8:Reply[Committed]:error
v8:Reply[SegmentStaged]:error v8:Reply[StageBegun]:error v8:Reply[StageFinished]:error v8:Reply[Table]
v8:Reply[Table]:error v8:StageSegment v8:ToActor:BodyCancel v8:ToActor:RequestAbort v8:ToActor:RequestChunk
v8:ToActor:ResponseWindow
`

// testKinds: each kind of message in each version of the envoy protocol is captured, or one of notCaptured, and then made
// by hand.
func testKinds(t *testing.T, captured map[string]bool) {
	byHand := map[string]bool{}
	for _, g := range slices.Concat(toEngine, fromEnvoy) {
		g.in(t, func(v rp.Version, _ []byte) { addKinds(byHand, v, g.message) })
	}
	for _, g := range slices.Concat(toRunner, toEnvoy) {
		g.in(t, func(v rp.Version, _ []byte) { addKinds(byHand, v, g.message) })
	}
	missing := strings.Fields(notCaptured)
	for kind := range byHand {
		if !captured[kind] && !slices.Contains(missing, kind) {
			t.Errorf("%s isn't captured", kind)
		}
	}
	for kind := range captured {
		if !byHand[kind] {
			t.Errorf("%s isn't made by hand", kind)
		}
	}
	for _, kind := range missing {
		if captured[kind] || !byHand[kind] {
			t.Errorf("%s: captured %v, made by hand %v", kind, captured[kind], byHand[kind])
		}
	}
}

// addKinds adds the names of what m is to kinds, in the envoy protocol: of the message, of what is in it, and whether it is an error.
func addKinds(kinds map[string]bool, v rp.Version, m any) {
	if v < rp.Envoy6 {
		return
	}
	var parts []any
	switch m := m.(type) {
	case rp.Events:
		for _, e := range m {
			parts = append(parts, e.Body)
		}
	case rp.Commands:
		for _, c := range m {
			parts = append(parts, c.Body)
		}
	default:
		parts = []any{nil}
		r := reflect.ValueOf(m)
		if r.Kind() != reflect.Struct {
			break
		}
		if b := r.FieldByName("Body"); b.IsValid() {
			parts[0] = b.Interface()
		}
		if e := r.FieldByName("Err"); e.IsValid() && !e.IsNil() {
			parts[0] = "error"
		}
	}
	for _, p := range parts {
		name := strings.NewReplacer("runnerproto.", "", "github.com/greenroomdb/greenroom/rivetkit/internal/", "").Replace(fmt.Sprintf("v%v:%T", v, m))
		if p == "error" {
			name += ":error"
		} else if p != nil {
			name += strings.ReplaceAll(fmt.Sprintf(":%T", p), "runnerproto.", "")
		}
		kinds[name] = true
	}
}

// text returns what a message says as JSON, with no more than the length of long data, which is all that some lines have.
func text(t *testing.T, says any) string {
	t.Helper()
	b, err := json.Marshal(says)
	if err != nil {
		t.Fatal(err)
	}
	return longData.ReplaceAllString(string(b), "$1")
}

var longData = regexp.MustCompile(`x'[0-9a-f]+…' \((\d+ bytes)\)`)

func testCapture[M any](t *testing.T, d rp.Direction[M], c capture, v rp.Version, say func(rp.Version, M) any, kinds map[string]bool) {
	t.Helper()
	if !c.whole() {
		b := unhex(t, strings.TrimSuffix(c.Hex, "…"))
		if _, err := d.Decode(v, b); !errors.Is(err, rp.ErrMalformed) || !strings.HasSuffix(err.Error(), "left") {
			t.Errorf("%s: %d bytes that aren't whole: %v", c.file, len(b), err)
		}
		return
	}
	b := unhex(t, c.Hex)
	m, err := d.Decode(v, b)
	if err != nil {
		t.Errorf("%s, version %v, %s: %v", c.file, v, c.Hex, err)
		return
	}
	if _, long := c.Says.(string); !long {
		if got, want := text(t, say(v, m)), text(t, c.Says); got != want {
			t.Errorf("%s, version %v, %s says\n%v, want\n%v", c.file, v, c.Hex, got, want)
		}
	}
	if got, err := d.Append(nil, v, m); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%s, version %v, %s encodes as\n%x, %v", c.file, v, c.Hex, got, err)
	}
	before := len(kinds)
	if addKinds(kinds, v, m); v > rp.V7 && len(kinds) == before {
		return
	}
	for n := 0; n < len(b); n += 1 + n/512 {
		if _, err := d.Decode(v, b[:n]); !errors.Is(err, rp.ErrMalformed) {
			t.Errorf("%s, version %v, the first %d bytes of %s: %v", c.file, v, n, c.Hex, err)
		}
	}
}

// The functions below write a message as the captures do: a union is {tag: val}, a number of 64 bits is text with an n
// at its end, and bytes are x'hexadecimal', of which only the first are shown.

type object = map[string]any

// shown is how many bytes of data the captures say.
const shown = 80

func union(tag string, val any) object { return object{tag: val} }
func long[T int64 | uint64](n T) any   { return fmt.Sprintf("%dn", n) }
func data(b []byte) any                { return plain(fmt.Sprintf("x'%x'", b)) }
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

func sayToEngine(_ rp.Version, m rp.ToEngine) any {
	switch m := m.(type) {
	case rp.RunnerInit:
		names := object{}
		for _, n := range m.ActorNames {
			names[n.Name] = object{"metadata": n.Metadata}
		}
		if m.Name == "" {
			return union("ToRivetMetadata", object{"prepopulateActorNames": names, "metadata": optional(m.Metadata, str)})
		}
		return union("ToRivetInit", object{"name": m.Name, "version": small(m.Version), "totalSlots": small(m.TotalSlots),
			"prepopulateActorNames": names, "metadata": optional(m.Metadata, str)})
	case rp.Events:
		return union("ToRivetEvents", list(m, sayEvent))
	case rp.Stopping:
		return union("ToRivetStopping", nil)
	case rp.Pong:
		return union("ToRivetPong", object{"ts": long(m.At)})
	case rp.KVRequest:
		return union("ToRivetKvRequest", object{"actorId": m.Actor, "requestId": small(m.ID), "data": sayKVRequest(m.Body)})
	case rp.FromActor:
		return union("ToRivetTunnelMessage", object{"messageId": sayMessageID(m.ID), "messageKind": sayFromActor(m.Body)})
	case rp.AckCommands:
		return union("ToRivetAckCommands", object{"lastCommandCheckpoints": list(m, sayCheckpoint)})
	case rp.GetPages:
		return askSQL("GetPages", m.ID, m.Actor, sayFence(m.Fence), object{"pgnos": list(m.Numbers, small)})
	case rp.Commit:
		return askSQL("Commit", m.ID, m.Actor, sayFence(m.Fence),
			object{"dirtyPages": list(m.Pages, sayPage), "dbSizePages": small(m.Size), "nowMs": long(m.At)})
	case rp.BeginStage:
		return askSQL("CommitStageBegin", m.ID, m.Actor, sayFence(m.Fence))
	case rp.FinishStage:
		return askSQL("CommitFinalize", m.ID, m.Actor, object{"expectedGeneration": optional(m.Generation, long), "txid": long(m.TxID),
			"newDbSizePages": small(m.Size), "nowMs": long(m.At), "segmentFirstPgnos": list(m.Segments, small)})
	case rp.Exec:
		return askSQL("Exec", m.ID, m.Database.Actor, sayDatabase(m.Database), object{"sql": m.SQL})
	case rp.Execute:
		return askSQL("Execute", m.ID, m.Database.Actor, sayDatabase(m.Database), sayStatement(m.Statement).(object))
	case rp.ExecuteBatch:
		return askSQL("ExecuteBatch", m.ID, m.Database.Actor, sayDatabase(m.Database), object{"statements": list(m.Statements, sayStatement)})
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
		return union("ToRivetResponseStart", object{"status": small(b.Status), "headers": headers(b.Headers), "body": body(b.Body), "stream": b.Stream})
	case rp.SocketAccept:
		return union("ToRivetWebSocketOpen", object{"canHibernate": b.CanHibernate})
	case rp.SocketMessage:
		return union("ToRivetWebSocketMessage", object{"data": data(b.Data), "binary": b.Binary})
	case rp.SocketAck:
		return union("ToRivetWebSocketMessageAck", object{"index": small(b.Index)})
	case rp.ActorClose:
		return union("ToRivetWebSocketClose", object{"code": optional(b.Code, small), "reason": optional(b.Reason, str), "hibernate": b.Hibernate})
	}
	return fmt.Sprintf("%T", b)
}

func sayToRunner(v rp.Version, m rp.ToRunner) any {
	switch m := m.(type) {
	case rp.EngineInit:
		if m.MaxResponse > 0 {
			return union("ToEnvoyInit", object{"metadata": object{"envoyLostThreshold": long(m.LostThreshold),
				"actorStopThreshold": long(m.StopThreshold), "maxResponsePayloadSize": long(m.MaxResponse)}})
		}
		return union("ToEnvoyInit", object{"runnerId": m.RunnerID, "metadata": object{"runnerLostThreshold": long(m.LostThreshold),
			"actorStopThreshold": long(m.StopThreshold), "serverlessDrainGracePeriod": optional(m.DrainGrace, long)}})
	case rp.Commands:
		return union("ToEnvoyCommands", list(m, func(c rp.Command) any { return sayCommand(v, c) }))
	case rp.AckEvents:
		return union("ToEnvoyAckEvents", object{"lastEventCheckpoints": list(m, sayCheckpoint)})
	case rp.KVResponse:
		return union("ToEnvoyKvResponse", object{"requestId": small(m.ID), "data": sayKVResponse(m.Body)})
	case rp.ToActor:
		return union("ToEnvoyTunnelMessage", object{"messageId": sayMessageID(m.ID), "messageKind": sayToActor(v, m.Body)})
	case rp.Ping:
		return union("ToEnvoyPing", object{"ts": long(m.At)})
	}
	return sayReply(m)
}

func sayCommand(v rp.Version, c rp.Command) any {
	inner := union("CommandStopActor", nil)
	switch b := c.Body.(type) {
	case rp.StartActor:
		inner = union("CommandStartActor", since(v, rp.Envoy6, object{
			"config":              object{"name": b.Name, "key": optional(b.Key, str), "createTs": long(b.CreatedAt), "input": body(b.Input)},
			"hibernatingRequests": list(b.Hibernating, func(id rp.TunnelID) any { return sayTunnel(id) }),
		}, object{"preloadedKv": optional(b.Preloaded, func(p rp.PreloadedKV) any { return fmt.Sprint(p) })}))
	case rp.StopActor:
		if v >= rp.Envoy6 {
			reasons := []string{"SleepIntent", "StopIntent", "Destroy", "GoingAway", "Lost"}
			inner = union("CommandStopActor", object{"reason": reasons[b.Reason]})
		}
	}
	return object{"checkpoint": sayCheckpoint(c.Checkpoint), "inner": inner}
}

// since returns all, with the fields in more if v has those of version first.
func since(v, first rp.Version, all, more object) object {
	if v >= first {
		maps.Copy(all, more)
	}
	return all
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

func sayToActor(v rp.Version, b rp.ToActorBody) any {
	generation := func(o rp.Optional[uint32]) object { return object{"actorGeneration": optional(o, small)} }
	switch b := b.(type) {
	case rp.RequestStart:
		all := object{"actorId": b.Actor, "method": b.Method, "path": b.Path, "headers": headers(b.Headers), "body": body(b.Body), "stream": b.Stream}
		since(v, rp.Envoy8, all, object{"responseStream": b.StreamResponse})
		return union("ToEnvoyRequestStart", since(v, rp.Envoy8, all, generation(b.Generation)))
	case rp.SocketOpen:
		return union("ToEnvoyWebSocketOpen", since(v, rp.Envoy8, object{"actorId": b.Actor, "path": b.Path, "headers": headers(b.Headers)}, generation(b.Generation)))
	case rp.SocketMessage:
		return union("ToEnvoyWebSocketMessage", object{"data": data(b.Data), "binary": b.Binary})
	case rp.ClientClose:
		return union("ToEnvoyWebSocketClose", object{"code": optional(b.Code, small), "reason": optional(b.Reason, str)})
	}
	return fmt.Sprintf("%T", b)
}
