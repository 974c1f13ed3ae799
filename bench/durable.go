package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A durability says what the two sides of a line have on the disk when an operation is done, for a line whose sides are not built alike. It is counted: a
// side waits for the disk that makes an fsync or more for each operation, of operations that are done one at a time.
type durability struct {
	// Subject and Peer are the fsyncs of an operation; absent if they couldn't be counted.
	Subject *float64 `json:"subject_fsyncs,omitempty"`
	Peer    *float64 `json:"peer_fsyncs,omitempty"`
	// Settings are what the peer is told about the disk.
	Settings string `json:"settings,omitempty"`
}

// countedOps is how many operations fsyncs are counted of at most, and countedFor after how long none of them begins any more: under strace they
// take many times as long.
const (
	countedOps = 20
	countedFor = time.Second
)

// mostlySynced is how many fsyncs an operation takes at least of a side that is durable: one that is shared with what the side does besides may not count.
const mostlySynced = 0.9

// String is the verdict, and what was counted.
func (d *durability) String() string {
	if d == nil {
		return ""
	}
	if d.Subject == nil || d.Peer == nil {
		return "not counted; " + cmp.Or(d.Settings, "by default")
	}
	verdict := map[[2]bool]string{{true, true}: "both", {true, false}: "subject only", {false, true}: "peer only", {false, false}: "neither"}
	return fmt.Sprintf("%s: %s, %s", verdict[[2]bool{*d.Subject >= mostlySynced, *d.Peer >= mostlySynced}], strconv.FormatFloat(*d.Subject, 'g', 3, 64), strconv.FormatFloat(*d.Peer, 'g', 3, 64))
}

// countFsyncs counts the fsyncs of both sides, unless both work in this process: those are built alike.
func (r *result) countFsyncs(subject, peer *stand) {
	if len(subject.processes.ids)+len(peer.processes.ids) > 0 {
		r.durable = &durability{subject.processes.syncsAlone(subject), peer.processes.syncsAlone(peer), peer.processes.settings}
	}
}

// syncsAlone counts with strace how many fsyncs an operation of a side takes that is done alone. It is nil where strace isn't there, or isn't
// allowed.
func (p *processes) syncsAlone(s *stand) *float64 {
	pids, _ := tree(p.ids)
	if len(pids) == 0 {
		pids = []int{os.Getpid()}
	}
	log := filepath.Join(s.dir, "fsyncs")
	args := []string{"-f", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o", log}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	strace := exec.CommandContext(s.ctx, "strace", args...)
	said := bufio.NewScanner(must(strace.StderrPipe()))
	if err := strace.Start(); errors.Is(err, exec.ErrNotFound) {
		return nil
	} else if err != nil {
		check(err)
	}
	attached := 0
	for attached < len(pids) && said.Scan() && strings.Contains(said.Text(), "attached") {
		attached++
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for said.Scan() { // what else it says of processes that begin and end is of no use
		}
	}()
	var failed error
	ops, start := 0, time.Now()
	for failed == nil && attached == len(pids) && (ops == 0 || ops < countedOps && time.Since(start) < countedFor) {
		failed = s.do(1)
		ops++
	}
	_ = strace.Process.Signal(os.Interrupt) // it lets them go on; it may have ended
	<-drained
	_ = strace.Wait() // by a signal
	check(failed)
	if attached < len(pids) {
		return nil
	}
	calls := 0
	for line := range bytes.Lines(must(os.ReadFile(log))) {
		if bytes.Contains(line, []byte("sync(")) { // not where an interrupted one is resumed
			calls++
		}
	}
	n := float64(calls) / float64(ops)
	return &n
}
