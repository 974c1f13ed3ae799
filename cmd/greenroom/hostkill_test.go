//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// hostRounds says how often TestHostKill kills the host: 5 times unless it is set.
const hostRounds = "GREENROOM_HOST_KILL_ROUNDS"

const (
	hostCounters = 3 // actors that are counted in, over HTTP
	hostWriters  = 2 // for each of them
	hostTalkers  = 4 // clients that talk in one room, over sockets
	hostAlarms   = 2 // actors that set alarms
)

// A hostLedger is what the clients of a host were told, and what they have asked for.
type hostLedger struct {
	mu       sync.Mutex
	acked    int               // answers, in this round
	counted  [hostCounters]int // the greatest number that was told
	asked    [hostCounters]int // what was asked for in all
	said     map[string]int64  // the ids of what was said, by text
	saying   map[string]bool   // what may have been said
	alarms   [hostAlarms]int   // that were told to be set
	alarmsUp [hostAlarms]int   // that may be
	enough   chan struct{}     // closed when there are as many answers as the round wants
	want     int
}

func (l *hostLedger) answer(note func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note()
	if l.acked++; l.acked == l.want {
		close(l.enough)
	}
}

func (l *hostLedger) ask(note func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note()
}

// begin begins a round that ends with so many answers.
func (l *hostLedger) begin(want int) {
	l.ask(func() { l.acked, l.want, l.enough = 0, want, make(chan struct{}) })
}

// A talker is a client in the room that comes back to its connection in each round.
type talker struct {
	name        string
	conn, token string
	said        int
}

// TestHostKill kills a host under load, again and again. What a client was told is so
// afterwards, nothing else is but what was asked for, and connections and alarms are there.
func TestHostKill(t *testing.T) {
	if testkit.Short() {
		t.Skip("it starts many processes")
	}
	t.Parallel()
	rounds := 5
	if text := os.Getenv(hostRounds); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	store := filepath.Join(t.TempDir(), "data")
	l := &hostLedger{said: map[string]int64{}, saying: map[string]bool{}}
	talkers := make([]*talker, hostTalkers)
	for i := range talkers {
		talkers[i] = &talker{name: fmt.Sprintf("talker %d", i)}
	}
	// Away for as long as a round may take; idle for so short that actors sleep meanwhile.
	args := []string{"--demo", "--idle", "2ms", "--away", "1h", store}
	for round := range rounds {
		p := startHost(t, "", args...)
		l.begin(100 + 60*round)
		hostLoad(t, p, l, talkers)
		p = startHost(t, "", args...)
		l.check(t, p, talkers)
		p.kill()
		if out := must(t, "check", store); !strings.Contains(out, "no problems") {
			t.Errorf("check: %s", out)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d rounds: counted to %v, said %d things, set %v alarms", rounds, l.counted, len(l.said), l.alarms)
}

// hostLoad has clients work until there are enough answers, and then kills the host under
// them.
func hostLoad(t *testing.T, p *hostProcess, l *hostLedger, talkers []*talker) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(10*time.Second))
	defer cancel()
	var wg sync.WaitGroup
	for i := range hostCounters * hostWriters {
		wg.Go(func() { l.count(ctx, p, i%hostCounters) })
	}
	for i := range hostAlarms {
		wg.Go(func() { l.setAlarms(ctx, p, i) })
	}
	for _, who := range talkers {
		wg.Go(func() {
			if err := l.talk(ctx, p, who); err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-l.enough:
	case <-ctx.Done():
		t.Errorf("there are only %d answers: %s", l.acked, &p.stderr)
	}
	p.kill()
	wg.Wait()
}

// count adds to a counter over HTTP until the host is gone.
func (l *hostLedger) count(ctx context.Context, p *hostProcess, i int) {
	for {
		l.ask(func() { l.asked[i]++ })
		var n int
		if p.post(ctx, fmt.Sprintf("/actors/counter/%d/actions/add", i), 1, &n) != nil {
			return
		}
		l.answer(func() { l.counted[i] = max(l.counted[i], n) })
	}
}

// setAlarms sets alarms until the host is gone: some ring at once, some in the next round.
func (l *hostLedger) setAlarms(ctx context.Context, p *hostProcess, i int) {
	for n := 0; ; n++ {
		l.ask(func() { l.alarmsUp[i]++ })
		var id string
		if p.post(ctx, fmt.Sprintf("/actors/counter/alarm-%d/actions/later", i), n%5*40, &id) != nil {
			return
		}
		l.answer(func() { l.alarms[i]++ })
	}
}

// talk says things in the room until the host is gone. An error is that the connection of
// an earlier round is gone.
func (l *hostLedger) talk(ctx context.Context, p *hostProcess, who *talker) error {
	s, err := who.connect(ctx, p)
	if err != nil {
		return err
	}
	if s == nil {
		return nil // the host was killed before
	}
	for {
		who.said++
		text := fmt.Sprintf("%s: %d", who.name, who.said)
		l.ask(func() { l.saying[text] = true })
		m, err := s.roundTrip(ctx, hostMessage{Type: "call", ID: who.said, Action: "say", Args: map[string]string{"text": text}}, "result")
		if err != nil {
			return nil
		}
		var message struct{ ID int64 }
		if err := json.Unmarshal(m.Body, &message); err != nil {
			return err
		}
		l.answer(func() { l.said[text] = message.ID })
	}
}

// connect takes the connection up again, or makes one the first time. A host that is gone
// is neither a socket nor an error.
func (who *talker) connect(ctx context.Context, p *hostProcess) (*hostSocket, error) {
	first := hostMessage{Type: "resume", Conn: who.conn, Token: who.token}
	if who.conn == "" {
		first = hostMessage{Type: "connect", Params: map[string]string{"name": who.name}}
	}
	s, m, err := p.dial(ctx, "chat/lobby", first)
	if err != nil {
		if m.Code != "" {
			return nil, fmt.Errorf("%s, connecting with %q: %w", who.name, first.Type, err)
		}
		return nil, nil
	}
	who.conn, who.token = s.conn, s.token
	return s, nil
}

// check compares what is there with what the clients were told.
func (l *hostLedger) check(t *testing.T, p *hostProcess, talkers []*talker) {
	ctx := soonContext(t)
	for i := range l.counted {
		var got map[string]int
		if err := p.post(ctx, fmt.Sprintf("/actors/counter/%d/actions/get", i), nil, &got); err != nil {
			t.Fatal(err)
		}
		if n := got["number"]; n < l.counted[i] || n > l.asked[i] {
			t.Errorf("counter %d is at %d: told were %d, asked for %d", i, n, l.counted[i], l.asked[i])
		}
	}
	l.checkSaid(ctx, t, p)
	for i := range l.alarms {
		l.checkAlarms(ctx, t, p, i)
	}
	for _, who := range talkers {
		s, err := who.connect(ctx, p)
		if err != nil || s == nil {
			t.Errorf("%s doesn't get back: %v", who.name, err)
			continue
		}
		if err := s.ws.CloseNow(); err != nil {
			t.Error(err)
		}
	}
}

// checkSaid reads the history: all that was told to be said, once, in its place.
func (l *hostLedger) checkSaid(ctx context.Context, t *testing.T, p *hostProcess) {
	found := map[string]int64{}
	for seen := int64(0); ; {
		var page []struct {
			ID         int64
			Name, Text string
		}
		if err := p.post(ctx, "/actors/chat/lobby/actions/history", seen, &page); err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			if seen++; m.ID != seen || found[m.Text] != 0 || !l.saying[m.Text] || !strings.HasPrefix(m.Text, m.Name+": ") {
				t.Errorf("message %d is %+v", seen, m)
			}
			found[m.Text] = m.ID
		}
		if len(page) == 0 {
			break
		}
	}
	for text, id := range l.said {
		if found[text] != id {
			t.Errorf("%q was told to be message %d, and is %d", text, id, found[text])
		}
	}
}

// checkAlarms waits until all alarms have rung that were told to be set.
func (l *hostLedger) checkAlarms(ctx context.Context, t *testing.T, p *hostProcess, i int) {
	for {
		var got map[string]int
		if err := p.post(ctx, fmt.Sprintf("/actors/counter/alarm-%d/actions/get", i), nil, &got); err != nil {
			t.Errorf("%d alarms of %d were told to be set: %v", l.alarms[i], l.alarmsUp[i], err)
			return
		}
		if n := got["rung"]; n > l.alarmsUp[i] {
			t.Errorf("%d alarms have rung of %d", n, l.alarmsUp[i])
			return
		} else if n >= l.alarms[i] {
			return
		}
	}
}
