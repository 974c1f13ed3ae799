package runnerproto_test

import (
	"encoding/hex"
	"strings"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// Parts of golden messages: the checkpoint {a 2 3}, and the message 5 of a tunnel.
const (
	checkpoint = "0161 02000000 0300000000000000"
	message    = "67773031 00000003 0500"
)

var (
	place  = rp.Checkpoint{Actor: "a", Generation: 2, Index: 3}
	tunnel = rp.TunnelID{Gateway: [4]byte{'g', 'w', '0', '1'}, Request: [4]byte{3: 3}}
	number = rp.MessageID{Tunnel: tunnel, Index: 5}
)

func event(b rp.EventBody) rp.Events       { return rp.Events{{place, b}} }
func command(b rp.CommandBody) rp.Commands { return rp.Commands{{place, b}} }
func ask(b rp.KVRequestBody) rp.KVRequest  { return rp.KVRequest{Actor: "a", ID: 7, Body: b} }
func answer(b rp.KVResponseBody) rp.KVResponse {
	return rp.KVResponse{ID: 7, Body: b}
}
func fromActor(b rp.FromActorBody) rp.FromActor { return rp.FromActor{ID: number, Body: b} }
func toActor(b rp.ToActorBody) rp.ToActor       { return rp.ToActor{ID: number, Body: b} }

// A golden is a message and its bytes, made by hand, in some versions of the protocol. No versions means all.
type golden[M any] struct {
	hex      string
	message  M
	versions []rp.Version
}

func (g golden[M]) in(t testing.TB, each func(v rp.Version, b []byte)) {
	t.Helper()
	b := unhex(t, g.hex)
	versions := g.versions
	if versions == nil {
		versions = all
	}
	for _, v := range versions {
		each(v, b)
	}
}

var (
	all     = []rp.Version{rp.V5, rp.V6, rp.V7, rp.Envoy6, rp.Envoy8}
	runners = all[:3]
	envoys  = all[3:]
	old     = all[:2]
	from7   = all[2:]
	not8    = all[:4]
	only6   = all[3:4]
	only8   = all[4:]
)

var toEngine = []golden[rp.ToEngine]{
	{"00 0161 01000000 a0860100 00 00", rp.RunnerInit{Name: "a", Version: 1, TotalSlots: 100000}, runners},
	{"00 00 ffffffff 00000000 01 00 01 00", rp.RunnerInit{Version: 1<<32 - 1, ActorNames: []rp.ActorName{}, Metadata: rp.Some("")}, runners},
	{"00 0161 00000000 00000000 01 02 017a 00 0162 027b7d 01 027b7d",
		rp.RunnerInit{Name: "a", ActorNames: []rp.ActorName{{"z", ""}, {"b", "{}"}}, Metadata: rp.Some("{}")}, runners},
	{"01 00", rp.Events(nil), nil},
	{"01 01" + checkpoint + "00 00", event(rp.IntentSleep), nil},
	{"01 01" + checkpoint + "00 01", event(rp.IntentStop), nil},
	{"01 01" + checkpoint + "01 00", event(rp.Running{}), nil},
	{"01 01" + checkpoint + "01 01 00 00", event(rp.Stopped{}), nil},
	{"01 01" + checkpoint + "01 01 01 01 026e6f", event(rp.Stopped{Code: 1, Message: rp.Some("no")}), nil},
	{"01 01" + checkpoint + "02 00", event(rp.SetAlarm{}), nil},
	{"01 01" + checkpoint + "02 01 feffffffffffffff", event(rp.SetAlarm{At: rp.Some[int64](-2)}), nil},
	{"01 02" + checkpoint + "01 00 0162 00000000 0000000000000000 00 00",
		rp.Events{{place, rp.Running{}}, {rp.Checkpoint{Actor: "b"}, rp.IntentSleep}}, nil},
	{"02 00", rp.AckCommands(nil), nil},
	{"02 01" + checkpoint, rp.AckCommands{place}, nil},
	{"03", rp.Stopping{}, nil},
	{"04 0102030405060700", rp.Pong{At: 0x0007060504030201}, nil},
	{"05 0161 07000000 00 00", ask(rp.KVGet{}), nil},
	{"05 0161 07000000 00 02 00 02ff00", ask(rp.KVGet{Keys: [][]byte{{}, {255, 0}}}), nil},
	{"05 0161 07000000 01 00 00 00", ask(rp.KVList{Query: rp.KVAll{}}), nil},
	{"05 0161 07000000 01 01 0101 0102 00 01 01 01 0a00000000000000",
		ask(rp.KVList{Query: rp.KVRange{Start: []byte{1}, End: []byte{2}}, Reverse: rp.Some(true), Limit: rp.Some[uint64](10)}), nil},
	{"05 0161 07000000 01 01 00 00 01 01 00 00",
		ask(rp.KVList{Query: rp.KVRange{Start: []byte{}, End: []byte{}, Exclusive: true}, Reverse: rp.Some(false)}), nil},
	{"05 0161 07000000 01 02 020501 00 00", ask(rp.KVList{Query: rp.KVPrefix{Prefix: []byte{5, 1}}}), nil},
	{"05 0161 07000000 02 00 00", ask(rp.KVPut{}), nil},
	{"05 0161 07000000 02 02 0101 0102 02 00 03040506",
		ask(rp.KVPut{Pairs: []rp.KVPair{{[]byte{1}, []byte{}}, {[]byte{2}, []byte{4, 5, 6}}}}), nil},
	{"05 0161 07000000 03 01 0101", ask(rp.KVDelete{Keys: [][]byte{{1}}}), nil},
	{"05 0161 07000000 04", ask(rp.KVDrop{}), old},
	{"05 0161 07000000 04 0101 020200", ask(rp.KVDeleteRange{Start: []byte{1}, End: []byte{2, 0}}), from7},
	{"05 0161 07000000 05", ask(rp.KVDrop{}), from7},
	{"06" + message + "00 c800 00 00 00", fromActor(rp.ResponseStart{Status: 200}), nil},
	{"06" + message + "00 9401 02 017a 0131 0161 00 01 00 01",
		fromActor(rp.ResponseStart{Status: 404, Headers: []rp.Header{{"z", "1"}, {"a", ""}}, Body: []byte{}, Stream: true}), nil},
	{"06" + message + "01 0101 00", fromActor(rp.ResponseChunk{Data: []byte{1}}), nil},
	{"06" + message + "01 00 01", fromActor(rp.ResponseChunk{Data: []byte{}, Finish: true}), nil},
	{"06" + message + "02", fromActor(rp.ResponseAbort{}), not8},
	{"06" + message + "03 01", fromActor(rp.SocketAccept{CanHibernate: true}), not8},
	{"06" + message + "04 026869 00", fromActor(rp.SocketMessage{Data: []byte("hi")}), not8},
	{"06" + message + "05 feff", fromActor(rp.SocketAck{Index: 65534}), not8},
	{"06" + message + "06 00 00 00", fromActor(rp.ActorClose{}), not8},
	{"06" + message + "06 01 e803 01 03627965 01",
		fromActor(rp.ActorClose{Code: rp.Some[uint16](1000), Reason: rp.Some("bye"), Hibernate: true}), not8},
}

var toRunner = []golden[rp.ToRunner]{
	{"00 0172 983a000000000000", rp.EngineInit{RunnerID: "r", LostThreshold: 15000}, []rp.Version{rp.V5}},
	{"00 0172 983a000000000000 3075000000000000 00", rp.EngineInit{RunnerID: "r", LostThreshold: 15000, StopThreshold: 30000},
		[]rp.Version{rp.V6, rp.V7}},
	{"00 0172 0000000000000000 0000000000000000 01 0100000000000000", rp.EngineInit{RunnerID: "r", DrainGrace: rp.Some[int64](1)},
		[]rp.Version{rp.V6, rp.V7}},
	{"01 00", rp.Commands(nil), nil},
	{"01 01" + checkpoint + "00 016e 00 0100000000000000 00 00", command(rp.StartActor{Name: "n", CreatedAt: 1}), runners},
	{"01 01" + checkpoint + "00 016e 01 016b ffffffffffffffff 01 00 02 67773031 00000003 00000000 00000000",
		command(rp.StartActor{Name: "n", Key: rp.Some("k"), CreatedAt: -1, Input: []byte{}, Hibernating: []rp.TunnelID{tunnel, {}}}), runners},
	{"01 01" + checkpoint + "01", command(rp.StopActor{}), runners},
	{"01 02" + checkpoint + "01 0162 00000000 0000000000000000 00 00 00 0000000000000000 01 0109 00",
		rp.Commands{{place, rp.StopActor{}}, {rp.Checkpoint{Actor: "b"}, rp.StartActor{Input: []byte{9}}}}, runners},
	{"02 00", rp.AckEvents(nil), nil},
	{"02 02" + checkpoint + "00 00000000 0000000000000000", rp.AckEvents{place, {}}, nil},
	{"03 07000000 00 026e6f", answer(rp.KVError{Message: "no"}), nil},
	{"03 07000000 01 00 00 00", answer(rp.KVGot{}), nil},
	{"03 07000000 01 02 0101 0102 02 00 0103 02 0130 0100000000000000 00 0200000000000000",
		answer(rp.KVGot{Entries: []rp.KVEntry{{[]byte{1}, []byte{}, []byte("0"), 1}, {[]byte{2}, []byte{3}, []byte{}, 2}}}), nil},
	{"03 07000000 02 01 0101 01 0102 01 0130 0100000000000000",
		answer(rp.KVListed{Entries: []rp.KVEntry{{[]byte{1}, []byte{2}, []byte("0"), 1}}}), nil},
	{"03 07000000 03", answer(rp.KVPutDone{}), nil},
	{"03 07000000 04", answer(rp.KVDeleted{}), nil},
	{"03 07000000 05", answer(rp.KVDropped{}), nil},
	{"04" + message + "00 0161 03474554 012f 00 00 00", toActor(rp.RequestStart{Actor: "a", Method: "GET", Path: "/"}), not8},
	{"04" + message + "00 0161 04504f5354 032f3f71 01 0162 0131 01 0101 01",
		toActor(rp.RequestStart{Actor: "a", Method: "POST", Path: "/?q", Headers: []rp.Header{{"b", "1"}}, Body: []byte{1}, Stream: true}), not8},
	{"04" + message + "01 0101 00", toActor(rp.RequestChunk{Data: []byte{1}}), nil},
	{"04" + message + "01 00 01", toActor(rp.RequestChunk{Data: []byte{}, Finish: true}), nil},
	{"04" + message + "02", toActor(rp.RequestAbort{}), not8},
	{"04" + message + "03 0161 012f 01 0162 0131", toActor(rp.SocketOpen{Actor: "a", Path: "/", Headers: []rp.Header{{"b", "1"}}}), not8},
	{"04" + message + "04 0100 01", toActor(rp.SocketMessage{Data: []byte{0}, Binary: true}), not8},
	{"04" + message + "05 00 00", toActor(rp.ClientClose{}), not8},
	{"04" + message + "05 01 e903 01 00", toActor(rp.ClientClose{Code: rp.Some[uint16](1001), Reason: rp.Some("")}), not8},
	{"05 0100000000000000", rp.Ping{At: 1}, nil},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
