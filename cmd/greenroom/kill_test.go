//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A killer runs the program on one store again and again, and kills it.
type killer struct {
	t       *testing.T
	program string
	store   string
	env     []string
	rng     *rand.Rand

	begun, acked int // the last transaction that was sent, and whose end was read

	rounds      int
	hot, litter int // how often a journal was left, and what is harmless
}

// TestKill kills the program while it writes, at any moment. Afterwards all acknowledged
// commits must be there, what was never sent must not, and nothing may be damaged.
func TestKill(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	program := builtProgram(t)
	for _, batches := range []string{"", "1"} {
		t.Run("atomic batches="+batches, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed) // the moments depend on the machine as well
			k := &killer{
				t: t, program: program, store: filepath.Join(t.TempDir(), "data"),
				env: append(os.Environ(), envlimits.AtomicBatches+"="+batches),
				rng: rand.New(rand.NewPCG(seed, 0)),
			}
			k.must("sql", k.store, "music", `CREATE TABLE t(n INTEGER PRIMARY KEY, round, b);
				CREATE TABLE n(a); INSERT INTO n VALUES (0); CREATE TABLE u(n, b); CREATE INDEX i ON u(n);
				INSERT INTO u WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 8000) SELECT 0, hex(randomblob(100)) FROM c`)
			for range testkit.Pick(5, 6, 25) {
				k.round()
				if t.Failed() {
					t.Fatalf("in round %d", k.rounds)
				}
			}
			t.Logf("%d rounds, %d transactions; left were %d journals and %d harmless things", k.rounds, k.acked, k.hot, k.litter)
		})
	}
}

// command returns the program with arguments.
func (k *killer) command(args ...string) *exec.Cmd {
	cmd := exec.Command(k.program, args...)
	cmd.Env = k.env
	return cmd
}

// must runs the program to its end and returns its output.
func (k *killer) must(args ...string) string {
	k.t.Helper()
	cmd := k.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("greenroom %q: %v, %s%s", args, err, out, stderr.String())
	}
	return string(out)
}

// transaction returns the SQL of transaction n, in one of several sizes. Each leaves
// its number in two places. Its end prints the number: the program writes the rows
// of a statement when it is done, before it reads the next one, so it is read here
// only after COMMIT has returned.
func (k *killer) transaction(n int) string {
	var b strings.Builder
	if k.rng.IntN(15) == 0 {
		b.WriteString("VACUUM; ")
	}
	b.WriteString("BEGIN; ")
	fmt.Fprintf(&b, "INSERT INTO t VALUES (%d, %d, hex(randomblob(%d))); UPDATE n SET a = %d; ", n, k.rounds, k.rng.IntN(400), n)
	rows := 1 + k.rng.IntN(5)
	switch k.rng.IntN(8) {
	case 0, 1:
		b.WriteString("UPDATE u SET b = hex(randomblob(100)); ") // more than a mebibyte
	case 2:
		rows = 1000 + k.rng.IntN(3000) // more than the cache, and than a sub-batch
	case 3:
		rows = 200
	case 4:
		b.WriteString("DELETE FROM u WHERE n > 0; ")
	case 5:
		fmt.Fprintf(&b, "UPDATE u SET b = hex(randomblob(100)) WHERE rowid %% 50 = %d; ", n%50)
	}
	fmt.Fprintf(&b, `INSERT INTO u WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT %d)
		SELECT %d, hex(randomblob(100)) FROM c; COMMIT; SELECT %d;`, rows, n, n)
	return b.String() + "\n"
}

// round runs the program until it is killed, and looks at what it left.
func (k *killer) round() {
	k.t.Helper()
	k.rounds++
	cmd := k.command("sql", k.store, "music")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	k.send(stdin, "PRAGMA cache_size = 20;\n")
	for range k.rng.IntN(12) {
		k.begun++
		k.send(stdin, k.transaction(k.begun))
		k.ack(out)
	}
	for range 1 + k.rng.IntN(3) {
		k.begun++
		k.send(stdin, k.transaction(k.begun))
	}
	spin(k.rng)
	if err := cmd.Process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	for k.ack(out) { // what it has said before its end counts as well
	}
	k.killed(cmd.Wait(), stderr.String())
	if k.rng.IntN(3) == 0 {
		k.killRecovery()
	}
	k.verify()
}

// send writes SQL to the program: less than a pipe holds, so it doesn't wait.
func (k *killer) send(stdin io.Writer, sql string) {
	k.t.Helper()
	if _, err := io.WriteString(stdin, sql); err != nil {
		k.t.Fatal(err)
	}
}

// ack reads the number of the next transaction that is committed, and says whether
// there was one before the program's end. A line without an end may be half a number.
func (k *killer) ack(out *bufio.Reader) bool {
	k.t.Helper()
	line, err := out.ReadString('\n')
	if err == io.EOF {
		return false
	}
	n, nerr := strconv.Atoi(strings.TrimSuffix(line, "\n"))
	if err := errors.Join(err, nerr); err != nil || n != k.acked+1 {
		k.t.Fatalf("read %q after %d, %v", line, k.acked, err)
	}
	k.acked = n
	return true
}

// spin lets a time pass that has any order of magnitude between that of a small
// transaction and that of a large one. A timer alone would be too coarse.
func spin(rng *rand.Rand) {
	end := time.Now().Add(time.Duration(float64(20*time.Microsecond) * math.Pow(10000, rng.Float64())))
	<-time.After(time.Until(end) - 2*time.Millisecond)
	for time.Now().Before(end) {
	}
}

// killed fails the test unless err is that of a program that was killed, and had
// nothing to complain about before.
func (k *killer) killed(err error, stderr string) {
	k.t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL || stderr != "" {
		k.t.Fatalf("the program ended with %v, %q", err, stderr)
	}
}

// killRecovery kills a program that may be rolling back.
func (k *killer) killRecovery() {
	k.t.Helper()
	cmd := k.command("sql", k.store, "music", "SELECT count(*) FROM t; SELECT count(*) FROM u; SELECT sum(length(b)) FROM u")
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	spin(k.rng)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		k.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		k.t.Errorf("the recovery ended with %v", err)
	}
}

// verify looks at the store with processes of their own.
func (k *killer) verify() {
	k.t.Helper()
	k.leftovers()
	got := k.must("sql", k.store, "music", `PRAGMA integrity_check; SELECT a FROM n;
		SELECT count(*), ifnull(max(n), 0), ifnull(min(n), 1) FROM t; SELECT ifnull(max(n), 0) FROM u`)
	var n, count, last, first, inU int
	if _, err := fmt.Sscanf(got, "ok\n%d\n%d|%d|%d\n%d\n", &n, &count, &last, &first, &inU); err != nil {
		k.t.Fatalf("%v in %q", err, got)
	}
	if n < k.acked || n > k.begun {
		k.t.Errorf("the last transaction is %d; committed were %d, begun %d", n, k.acked, k.begun)
	}
	if count != n || last != n || first != 1 || inU > n {
		k.t.Errorf("transaction %d left %d rows from %d to %d, and rows of %d", n, count, first, last, inU)
	}
	if got := k.must("check", k.store); !strings.HasPrefix(got, "1 actor, ") || !strings.HasSuffix(got, " keys, no problems\n") {
		k.t.Errorf("check says %q", got)
	}
	k.acked, k.begun = n, n
}

// leftovers checks the store before anybody has opened it for writing. A crash may
// leave what is harmless, and a journal.
func (k *killer) leftovers() {
	k.t.Helper()
	out, err := k.command("check", k.store).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != serving.ExitFailed || len(exit.Stderr) > 0) {
		if exit != nil {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		k.t.Fatalf("check: %v, %s", err, out)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for _, line := range lines[:len(lines)-1] {
		switch {
		case strings.HasPrefix(line, "note: "):
			k.hot++
		case strings.HasPrefix(line, "harmless: "):
			k.litter++
		default:
			k.t.Errorf("after a crash: %s", line)
		}
	}
	if !strings.HasPrefix(lines[len(lines)-1], "1 actor, ") {
		k.t.Errorf("check ends with %q", lines[len(lines)-1])
	}
}

// TestKillImport kills imports: the old database is there afterwards, or the new one.
func TestKillImport(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	k := &killer{
		t: t, program: builtProgram(t), store: filepath.Join(t.TempDir(), "data"),
		env: os.Environ(), rng: rand.New(rand.NewPCG(seed, 0)),
	}
	rows := testkit.Pick(20_000, 20_000, 50_000)
	var files [2]string
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "source.db")
		c := filled(t, files[i], rows+i, fmt.Sprintf("page_size=%d", 1024<<(2*i)))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	k.must("import", k.store, "music", files[0])
	begin := time.Now()
	k.must("import", k.store, "music", files[0])
	whole := time.Since(begin)
	has, changed := 0, 0
	rounds := testkit.Pick(3, 3, 12)
	for range rounds {
		cmd := k.command("import", k.store, "music", files[1-has])
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(1.2 * k.rng.Float64() * float64(whole)))
		kerr := cmd.Process.Kill()
		if err := cmd.Wait(); err != nil {
			k.killed(err, stderr.String())
		} else if !errors.Is(kerr, os.ErrProcessDone) && kerr != nil {
			t.Fatal(kerr)
		}
		k.leftovers()
		switch got := k.must("sql", k.store, "music", "PRAGMA integrity_check; SELECT count(*), sum(length(b)) FROM t"); got {
		case fmt.Sprintf("ok\n%d|%d\n", rows+has, 100*(rows+has)):
		case fmt.Sprintf("ok\n%d|%d\n", rows+1-has, 100*(rows+1-has)):
			has = 1 - has
			changed++
		default:
			t.Fatalf("got %q", got)
		}
		if got := k.must("check", k.store); !strings.HasSuffix(got, " keys, no problems\n") {
			t.Errorf("check says %q", got)
		}
	}
	t.Logf("%d rounds, %d imports of %v done; left were %d journals and %d harmless things", rounds, changed, whole, k.hot, k.litter)
}
