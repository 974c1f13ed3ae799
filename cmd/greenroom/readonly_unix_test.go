//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/internal/serving"
)

// TestReadOnlyFolder reads a store that the user may not write to. Root may write to all, so
// it runs the program as another user.
func TestReadOnlyFolder(t *testing.T) {
	dir, err := os.MkdirTemp("", "greenroom-readonly-") // others may enter what it lies in
	if err != nil {
		t.Fatal(err)
	}
	store, command := filepath.Join(dir, "data"), filepath.Join(dir, "greenroom")
	t.Cleanup(func() { _ = setModes(dir, 0o700, 0o700); _ = os.RemoveAll(dir) })
	must(t, "sql", store, "music", "create table t(a); insert into t values (7)")
	must(t, "put", store, "music", "k", "v")
	program, err := os.ReadFile(builtProgram(t))
	if err == nil {
		err = os.WriteFile(command, program, 0o700)
	}
	if err == nil {
		err = setModes(dir, 0o555, 0o444)
	}
	if err == nil {
		err = os.Chmod(command, 0o555)
	}
	if err != nil {
		t.Fatal(err)
	}
	look := func(args ...string) string {
		cmd := exec.Command(command, args...)
		cmd.Dir = "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	for want, args := range map[string][]string{
		"v": {"get", store, "music", "k"}, "7\n": {"sql", "--read-only", store, "music", "select a from t"},
	} {
		if got := look(args...); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	for want, args := range map[string][]string{
		"no problems\n": {"check", store}, "permission denied\n": {"put", store, "music", "k", "w"},
		"permission denied; what may only be read is looked at with --read-only\n": {"sql", store, "music", "select a from t"},
	} {
		if got := look(args...); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %q, want …%q", args, got, want)
		}
	}
	// A program on this machine that writes is seen.
	if os.Getuid() != 0 {
		return
	}
	held := newStream(t, t.Context(), store)
	held.say(t, "insert into t values (8) returning a;", "8")
	if got := look("get", store, "music", "k"); !strings.Contains(got, "is in use") {
		t.Errorf("beside a writer: %q", got)
	}
	held.in.Close()
	if r := <-held.done; r.code != serving.ExitOK {
		t.Errorf("%+v", r)
	}
	if err := setModes(store, 0o555, 0o444); err != nil {
		t.Fatal(err)
	}
	// So it is without the file that is locked.
	if err := os.Remove(filepath.Join(store, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if got := look("sql", "--read-only", store, "music", "select max(a) from t"); got != "8\n" {
		t.Errorf("without LOCK: %q", got)
	}
}

// setModes sets the modes of the folders and files at root and below.
func setModes(root string, folders, files fs.FileMode) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, folders)
		}
		return os.Chmod(path, files)
	})
}
