package lease_test

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/actorstore/internal/lease"
)

// TestHasEnded: a process that runs is never taken for one that has ended, one that was
// killed is, and so is one whose number has gone to another.
func TestHasEnded(t *testing.T) {
	machine, pid, started := lease.Identify()
	if machine == "" {
		t.Skip("this system doesn't say which process is which")
	}
	me := layout.Host{Machine: machine, PID: pid, Started: started}
	if lease.HasEnded(&me) {
		t.Error("this process has ended")
	}
	for name, row := range map[string]layout.Host{
		"another machine": {Machine: machine + "x", PID: 1 << 30, Started: 1},
		"no machine":      {PID: 1 << 30, Started: 1},
		"no process":      {Machine: machine},
		"no number":       {Machine: machine, PID: 1 << 40},
	} {
		if lease.HasEnded(&row) {
			t.Errorf("%s: nothing can be said of that", name)
		}
	}
	before := me
	before.Started--
	if !lease.HasEnded(&before) {
		t.Error("the number was another process's")
	}

	exe, err := os.Executable()
	must(t, err)
	child := exec.Command(exe, "-test.run=^TestHasEndedChild$")
	child.Env = append(os.Environ(), "LEASE_CHILD=1")
	out, err := child.StdoutPipe()
	must(t, err)
	_, err = child.StdinPipe() // as long as it is open the child waits
	must(t, err)
	must(t, child.Start())
	_, err = io.ReadFull(out, make([]byte, 1))
	must(t, err)
	row := layout.Host{Machine: machine, PID: uint64(child.Process.Pid)}
	row.Started, err = lease.StartOf(row.PID)
	must(t, err)
	if lease.HasEnded(&row) {
		t.Error("the child runs, and has ended")
	}
	must(t, child.Process.Kill())
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if !lease.HasEnded(&row) {
		t.Error("the child was killed, and runs")
	}
}

// TestHasEndedChild is the process that is killed.
func TestHasEndedChild(t *testing.T) {
	if os.Getenv("LEASE_CHILD") == "" {
		t.Skip("it is the child of another test")
	}
	if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		t.Fatal(err)
	}
}
