package engine_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A recovery is what stuck.mjs writes: an entry of a list is an actor's.
type recovery struct {
	Silent, SilentConnections, SilentAfterwards int   // actors that don't answer for half a minute
	After, ConnectionsAfter                     []int // milliseconds until the first answer
	Lost                                        []int // clicks that were answered
	LostSaved                                   []int // clicks that were answered after they had been saved
	Awake, Twice                                int   // actors that were awake, and those that had two instances at once
}

// A client of these versions doesn't try again when nothing listens at the moment at which it reconnects: it gets a new connection.
var givesUp = map[string]bool{"2.2.1": true, "2.3.19": true}

// TestRestarted ends the engine of a program whose actors have connections, and starts it again: every actor must answer, over its
// connection, too, and no click that it saved may be lost. With RivetKit's own engine those are lost that aren't saved yet.
func TestRestarted(t *testing.T) {
	testkit.OnlyLong(t, "an actor may be away for as long as a lost runner has to come back")
	for _, version := range append(versions, envoyVersions[0]) {
		t.Run(version, func(t *testing.T) {
			s := newSuite(t, version)
			for _, by := range []os.Signal{syscall.SIGTERM, os.Kill} {
				for range 10 {
					r := s.restarted(t, by)
					if r.Silent+r.SilentConnections+r.SilentAfterwards > 0 {
						t.Fatalf("%v: %d actors don't answer, %d over their connections; a second later %d", by, r.Silent, r.SilentConnections, r.SilentAfterwards)
					}
					lost := 0
					for _, n := range r.Lost {
						lost += n
					}
					t.Logf("%v: all answered after %d ms, over connections after %d ms; %d clicks are lost", by, slices.Max(r.After), slices.Max(r.ConnectionsAfter), lost)
					if r.Awake != len(r.Lost) || r.Twice > 0 {
						t.Errorf("%v: %d actors of %d were awake, %d in two instances at once", by, r.Awake, len(r.Lost), r.Twice)
					}
					if saved := slices.Max(r.LostSaved); saved > 0 {
						t.Errorf("%v: an actor has lost %d clicks that it had saved", by, saved)
					}
				}
			}
		})
	}
}

// restarted runs stuck.mjs, and ends the engine under it by a signal.
func (s *suite) restarted(t *testing.T, by os.Signal) (r recovery) {
	t.Helper()
	store := t.TempDir() + "/store"
	engine, err := s.serve(store, ownPort)
	must(t, err)
	defer func() { engine.kill() }()
	cmd := s.script(t, "stuck.mjs", engine.url)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it has ended, or was killed
	}()
	kill := time.AfterFunc(testkit.Patience(20*time.Second), func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "ready":
			engine.end(by)
			next, err := s.serve(store, strings.TrimPrefix(engine.url, "http://"))
			must(t, err)
			engine = next
			line = "keep\n"
			if givesUp[s.version] {
				line = "renew\n"
			}
			_, err = io.WriteString(in, line)
			must(t, err)
		case strings.HasPrefix(line, "{"):
			must(t, json.Unmarshal([]byte(line), &r))
			return r
		}
	}
	t.Fatalf("the program has ended without a result: %s", &stderr)
	return r
}
