package host

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
)

// fingerprintOf returns the fingerprint of a type, which tells apart the versions of a type that can't do the same work: by the names
// of its actions and messages, by which hooks it has, and, if it has a workflow, by the
// whole program, since nothing else says what the code of a workflow does.
func fingerprintOf(k *kind) uint64 {
	actions := make([]string, 0, len(k.actions))
	for name := range k.actions {
		actions = append(actions, name)
	}
	slices.Sort(actions)
	messages := slices.Clone(k.MessageNames)
	slices.Sort(messages)
	said := fmt.Sprintf("%q %q %q %v %v %v %v %v", k.Name, actions, messages, k.Other != nil, k.Alarm != nil, k.Message != nil, k.Run != nil, k.Wake != nil)
	if w := k.Work; w != nil {
		said += fmt.Sprintf(" %q", slices.Sorted(slices.Values(w.Names)))
	}
	if b := k.Batch; b != nil {
		said += fmt.Sprintf(" batch %q", slices.Sorted(slices.Values(b.Names)))
	}
	if n := k.Migrations.Latest(); n > 0 {
		said += fmt.Sprintf(" schema %d", n)
	}
	if k.Workflow != nil {
		said += fmt.Sprintf(" %q %x", k.Workflow.code, program())
	}
	sum := sha256.Sum256([]byte(said))
	return binary.BigEndian.Uint64(sum[:])
}

// program returns the sum of the program's file. Where that can't be read it is the sum of
// what the linker has noted, in which programs of one version control revision are the same.
var program = sync.OnceValue(func() (sum [sha256.Size]byte) {
	h := sha256.New()
	if err := readProgram(h); err == nil {
		return [sha256.Size]byte(h.Sum(nil))
	}
	info, _ := debug.ReadBuildInfo()
	return sha256.Sum256([]byte(fmt.Sprint(info)))
})

// readProgram writes the program's file to w.
func readProgram(w io.Writer) error {
	path, err := os.Executable()
	if runtime.GOOS == "linux" {
		path, err = "/proc/self/exe", nil // also when a newer one lies in its place
	}
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = io.Copy(w, f)
	return err
}
