package engine_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// TestToolBeside: while a RivetKit program has its actors awake, a command reads them, and one that writes is refused by the actor's name. The program goes on.
func TestToolBeside(t *testing.T) {
	s := newSuite(t, versions[0])
	store := t.TempDir() + "/store"
	engine, err := s.serve(store, anyPort)
	must(t, err)
	defer engine.kill()
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
			s.workBeside(t, store)
			_, err = io.WriteString(in, "keep\n")
			must(t, err)
		case strings.HasPrefix(line, "{"):
			var r recovery
			must(t, json.Unmarshal([]byte(line), &r))
			if r.Silent+r.SilentConnections+r.SilentAfterwards > 0 || r.Awake != 20 || r.Twice > 0 {
				t.Errorf("after the commands: %+v", r)
			}
			return
		}
	}
	t.Fatalf("the program has ended without a result: %s", &stderr)
}

// workBeside runs commands with an actor that is awake.
func (s *suite) workBeside(t *testing.T, store string) {
	t.Helper()
	command := func(args ...string) (stdout, stderr string, err error) {
		var out, errs strings.Builder
		cmd := exec.CommandContext(t.Context(), s.program, args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		return out.String(), errs.String(), err
	}
	list, said, err := command("ls", store, "--json")
	if err != nil {
		t.Fatalf("ls: %v, %s", err, said)
	}
	var actors []struct {
		ID   string
		Name *string
	}
	must(t, json.Unmarshal([]byte(list), &actors))
	if len(actors) < 20 {
		t.Fatalf("there are %d actors: %s", len(actors), list)
	}
	name := "id:" + actors[0].ID
	if actors[0].Name != nil {
		name = *actors[0].Name
	}
	before, said, err := command("ls", store, name)
	if err != nil || before == "" {
		t.Errorf("ls of an actor: %v, %q, %s", err, before, said)
	}
	for _, args := range [][]string{{"put", store, name, "k", "v"}, {"label", store, name, "a=b"}, {"sql", store, name, "create table t(a)"}} {
		if _, said, err := command(args...); err == nil || !strings.Contains(said, "the actor "+name+" is in use by the process that has the store open") {
			t.Errorf("%q: %v, %s", args, err, said)
		}
	}
	if got, _, err := command("get", store, name, "k"); err == nil {
		t.Errorf("what was refused is there: %q", got)
	}
}
