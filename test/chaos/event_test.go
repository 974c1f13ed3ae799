//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
)

// A world is what breaks.
type world struct {
	testing.TB
	rand     *rand.Rand // the test's own goroutine alone uses it
	node     *pgtest.Node
	machines []*machine
	dir      string // of logs, and of what the checker finds
	history  *history

	over chan struct{} // closed when all that lasts is to end
	work sync.WaitGroup
}

// kinds are what can happen, by name. Each begins it, and returns what it was.
var kinds = map[string]func(*world) string{
	"kill":    (*world).kill,
	"stop":    (*world).stop,
	"cut":     (*world).cut,
	"hole":    (*world).hole,
	"term":    (*world).term,
	"backend": (*world).backend,
	"server":  (*world).server,
}

// any returns one of the machines.
func (w *world) any() *machine { return w.machines[w.rand.IntN(len(w.machines))] }

// upTo returns a time up to one of milliseconds.
func (w *world) upTo(ms int) time.Duration {
	return time.Duration(1+w.rand.IntN(ms)) * time.Millisecond
}

// lasts ends something by end after d, or when all is over.
func (w *world) lasts(kind, what string, d time.Duration, end func()) {
	ended := w.history.happened(kind, what)
	w.work.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-w.over:
		}
		end()
		ended()
	})
}

// kill ends a host's process, in the place of which another one is started. Half of the time it waits for when that has turns of two actors.
func (w *world) kill() string {
	i := w.rand.IntN(len(w.machines))
	m, what := w.machines[i], ""
	if w.rand.IntN(2) == 0 {
		cycle := round * time.Duration(len(w.machines))
		<-time.After(cycle - (w.history.now()-time.Duration(i)*round)%cycle + w.upTo(int(busy.Milliseconds())))
		what = ", with turns of two"
	}
	m.signal(syscall.SIGKILL)
	return m.name + what
}

// stop has a host stand still, for long enough to lose its lease or not.
func (w *world) stop() string {
	m, d := w.any(), w.upTo(6000)
	m.signal(syscall.SIGSTOP)
	what := fmt.Sprintf("%s for %v", m.name, d)
	w.lasts("stopped", what, d, func() { m.signal(syscall.SIGCONT) })
	return what
}

// cut resets all connections between a host and the server.
func (w *world) cut() string {
	m := w.any()
	m.proxy.Reset()
	return m.name
}

// hole has nothing of what a host and the server send arrive for a while. Then all of it
// does, or the connections are reset.
func (w *world) hole() string {
	m, d, reset := w.any(), w.upTo(4000), w.rand.IntN(2) == 0
	what := fmt.Sprintf("%s for %v", m.name, d)
	if reset {
		what += ", and a cut"
	}
	m.proxy.Set(pgtest.Stall, pgtest.Stall)
	w.lasts("silent", what, d, func() {
		if reset {
			m.proxy.Reset()
		}
		m.proxy.Set(pgtest.Pass, pgtest.Pass)
	})
	return what
}

// clientBackends are the server's connections, but for the one that asks.
const clientBackends = " FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"

// term has the server end all connections.
func (w *world) term() string {
	return w.node.SQL(w, "SELECT count(pg_terminate_backend(pid))"+clientBackends) + " connections"
}

// backend kills one of the server's processes: the server ends all others, and begins anew
// with what is on its disk. It has done so when it has another checkpointer; until it
// notices the death, it answers as before.
func (w *world) backend() string {
	const checkpointer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
	before := w.node.SQL(w, checkpointer)
	var pids []string
	w.poll("a connection", func() (bool, error) {
		pids = strings.Fields(w.node.SQL(w, "SELECT pid"+clientBackends))
		return len(pids) > 0, nil
	})
	text := pids[w.rand.IntN(len(pids))]
	pid, err := strconv.Atoi(text)
	if err != nil {
		w.Fatal(err)
	}
	switch err := syscall.Kill(pid, syscall.SIGKILL); err {
	case nil:
	case syscall.ESRCH:
		return text + ", which had ended"
	default:
		w.Fatal(err)
	}
	w.poll("the server", func() (bool, error) {
		now, err := w.node.Node.SQL(checkpointer)
		return err == nil && now != "" && now != before, nil
	})
	return text
}

// server kills all of the server's processes, and starts it again.
func (w *world) server() string {
	w.node.Kill(w)
	w.node.Start(w)
	return w.node.Name
}

// poll waits until done says so.
func (w *world) poll(what string, done func() (bool, error)) {
	if err := pglocal.Poll(done); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}
