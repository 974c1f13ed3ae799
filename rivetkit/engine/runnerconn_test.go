package engine

import (
	"bytes"
	goruntime "runtime"
	"testing"

	rp "github.com/greenroomdb/greenroom/rivetkit/internal/runnerproto"
)

// messagesToRunner are the messages whose size has no bound of its own.
var messagesToRunner = map[string]rp.ToRunner{
	"request": rp.ToActor{Body: rp.RequestStart{
		Actor: "a", Method: "POST", Path: "/x", Headers: []rp.Header{{Name: "x-long", Value: string(make([]byte, 5000))}}, Body: make([]byte, 20<<20),
	}},
	"socket":     rp.ToActor{Body: rp.SocketOpen{Actor: "a", Path: string(make([]byte, 5000))}},
	"message":    rp.ToActor{Body: rp.SocketMessage{Data: make([]byte, 1<<20)}},
	"start":      rp.Commands{{Body: rp.StartActor{Name: "x", Key: rp.Some(string(make([]byte, 1000))), Input: make([]byte, 1<<20), Hibernating: make([]rp.TunnelID, 1000)}}},
	"keys":       rp.KVResponse{Body: rp.KVGot{Entries: entriesOf(128, 100<<10)}},
	"small keys": rp.KVResponse{Body: rp.KVListed{Entries: entriesOf(16384, 1)}},
	"ping":       rp.Ping{At: 1},
}

func entriesOf(n, size int) (list []rp.KVEntry) {
	for range n {
		list = append(list, rp.KVEntry{Key: []byte("key"), Value: make([]byte, size), Version: []byte("0")})
	}
	return list
}

// TestSendCopiesNothing: a message is encoded when its turn has come, not while its sender holds the engine's lock, and it counts
// as much as its bytes until then.
func TestSendCopiesNothing(t *testing.T) {
	for name, m := range messagesToRunner {
		t.Run(name, func(t *testing.T) {
			c := &runnerConn{version: rp.V7}
			c.limit, c.writing = 1<<30, true // no goroutine writes
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			c.send(m)
			goruntime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("to send it takes %d bytes of memory", n)
			}
			got, err := c.queue[0].encode()
			want, bad := rp.RunnerBound.Append(nil, rp.V7, m)
			if err != nil || bad != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes are sent, not %d: %v %v", len(got), len(want), err, bad)
			}
			if c.bytes < len(want)*9/10 || c.bytes > len(want)*12/10+128 {
				t.Errorf("%d bytes count as %d", len(want), c.bytes)
			}
		})
	}
}
