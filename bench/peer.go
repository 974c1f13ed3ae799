package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

// A peer is a program that does the work of one side: it is told how many operations on its
// standard input, and answers with that number when they are done. Behind it, after a space,
// may be what they asked of an engine, as JSON of asked.
type peer struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	called faultkv.Counts
	fsyncs measured
}

// asked is what a program says of its engine; without Fsyncs those aren't known.
type asked struct {
	faultkv.Counts
	Fsyncs *int64
}

var _ runner = (*peer)(nil)

// errBuild means that a peer can't be had here.
var errBuild = errors.New("the peer can't be built")

// openPeer builds a program in dir, unless this run has, and starts it with args.
func openPeer(ctx context.Context, at site, dir, name string, args ...string) (p *peer, err error) {
	program, err := buildPeer(ctx, at, dir, name)
	if err != nil {
		return nil, err
	}
	p = &peer{cmd: exec.Command(program, args...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

func buildPeer(ctx context.Context, at site, dir, name string) (program string, err error) {
	if program, err = filepath.Abs(filepath.Join(cmp.Or(at.bin, at.dir), name)); err != nil {
		return "", err
	}
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(dir, name) // some are modules of their own
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s: %w\n%s", errBuild, build.Dir, err, out)
	}
	return program, nil
}

func (p *peer) run(_ context.Context, n int) error {
	if _, err := fmt.Fprintln(p.in, n); err != nil {
		return err
	}
	if !p.out.Scan() {
		return errors.Join(fmt.Errorf("%s has ended", p.cmd.Path), p.out.Err())
	}
	done, counts, more := strings.Cut(p.out.Text(), " ")
	if done != strconv.Itoa(n) {
		return fmt.Errorf("%s answers %q to %d", p.cmd.Path, p.out.Text(), n)
	}
	if !more {
		return nil
	}
	var a asked
	if err := json.Unmarshal([]byte(counts), &a); err != nil {
		return fmt.Errorf("%s answers %q: %w", p.cmd.Path, p.out.Text(), err)
	}
	p.called = plus(p.called, a.Counts)
	if a.Fsyncs != nil {
		p.fsyncs = p.fsyncs.and(measured{*a.Fsyncs, true})
	}
	return nil
}

func (p *peer) counts() faultkv.Counts { return p.called }

// memory is the meter of the program.
func (p *peer) memory() peakMeter { return memoryOf(p.cmd.Process.Pid) }

// stopTimeout is how long a program may take that was told to end.
const stopTimeout = time.Minute

func (p *peer) close() error {
	timer := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() }) // Wait says so
	defer timer.Stop()
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
