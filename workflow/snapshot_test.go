package workflow_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/greenroomdb/greenroom/workflow"
	"github.com/greenroomdb/greenroom/workflow/internal/history"
)

// everything returns a Snapshot with each kind of entry, in which each field has a value.
func everything() *workflow.Snapshot {
	text, value, at := "text", []byte{0x05}, workflow.Millis(9)
	meta := &workflow.Metadata{
		Status: workflow.StatusExhausted, Error: &text, Attempts: 2, LastAttemptAt: 7, CreatedAt: 8,
		CompletedAt: &at, RollbackCompletedAt: &at, RollbackError: &text,
	}
	branches := []workflow.BranchEntry{{Name: "b", Status: workflow.BranchCancelled, Output: value, Error: &text}}
	s := &workflow.Snapshot{
		State: workflow.RollingBack, Input: value, Output: value, Names: []string{"a", "b"},
		Error: &workflow.StoredError{
			Name: "gone", Message: "m", Stack: "s",
			Metadata: []workflow.ErrorProperty{{Name: "z", Value: "1"}, {Name: "a", Value: true}},
		},
		Rested:  []workflow.Wait{{For: workflow.WaitMessage, Path: "m", Since: 5, Until: 6, Names: []string{"n"}, Error: "e"}},
		Orphans: map[string]*workflow.Metadata{"lost": meta},
	}
	var root workflow.Location
	for i, k := range []workflow.Kind{
		workflow.StepEntry{Output: value, Error: &text},
		workflow.LoopEntry{State: value, Iteration: 3, Output: value},
		workflow.SleepEntry{Deadline: 9, State: workflow.SleepInterrupted},
		workflow.MessageEntry{Name: "m", Data: value},
		workflow.CheckpointEntry{Name: "c"},
		workflow.JoinEntry{Branches: branches},
		workflow.RaceEntry{Winner: &text, Branches: branches},
		workflow.RemovedEntry{Original: "step", Name: &text},
		workflow.VersionEntry{Resolved: 1, Latest: 2},
	} {
		s.Entries = append(s.Entries, workflow.Entry{ID: fmt.Sprint(i), Location: root.Name(0).Iteration(0, uint32(i)), Kind: k, Metadata: meta})
	}
	return s
}

// unset returns the path of the first field of v without a value, "" if all fields have one.
func unset(path string, v reflect.Value) string {
	if v.IsZero() {
		return path
	}
	var bad string
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		bad = unset(path, v.Elem())
	case reflect.Struct:
		for i := 0; i < v.NumField() && bad == ""; i++ {
			bad = unset(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
	return bad
}

// TestSnapshotJSON: a Snapshot is the same when it was in a file, with all its fields, and so
// is the file.
func TestSnapshotJSON(t *testing.T) {
	s := everything()
	if bad := unset("Snapshot", reflect.ValueOf(s)); bad != "" {
		t.Fatalf("%s has no value", bad)
	}
	if bad := unset("Rested", reflect.ValueOf(s.Rested[0])); bad != "" {
		t.Fatalf("%s has no value", bad)
	}
	for _, e := range s.Entries {
		if bad := unset(e.Type(), reflect.ValueOf(e)); bad != "" {
			t.Fatalf("%s has no value", bad)
		}
	}
	saved, err := s.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got workflow.Snapshot
	if err := got.UnmarshalJSON(saved); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got, s) {
		t.Errorf("got\n%+v\nwant\n%+v", &got, s)
	}
	old, err := os.ReadFile("workflowtest/testdata/visit.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range [][]byte{saved, old} {
		var own history.Snapshot
		var public workflow.Snapshot
		if err := own.UnmarshalJSON(file); err != nil {
			t.Fatal(err)
		}
		if err := public.UnmarshalJSON(file); err != nil {
			t.Fatal(err)
		}
		want, err1 := own.MarshalJSON()
		got, err2 := public.MarshalJSON()
		if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("got %v\n%s\nwant %v\n%s", err2, got, err1, want)
		}
	}
}

// TestSnapshotMethods: a Snapshot finds names, and knows where and when entries were made.
func TestSnapshotMethods(t *testing.T) {
	s := everything()
	for i, e := range s.Entries {
		parent, last, ok := e.Location.Parent()
		if want := (workflow.Segment{Loop: true, Iteration: uint32(i)}); !ok || last != want || s.Path(parent) != "a" {
			t.Errorf("%s is %+v in %s", s.Path(e.Location), last, s.Path(parent))
		}
		if !e.Location.Within(parent) || parent.Within(e.Location) {
			t.Errorf("%s is not within %s", s.Path(e.Location), s.Path(parent))
		}
		if got, want := s.Path(e.Location), fmt.Sprintf("a[%d]", i); got != want {
			t.Errorf("path: got %s, want %s", got, want)
		}
	}
	if i, ok := s.Lookup("b"); i != 1 || !ok {
		t.Errorf("b is name %d, %v", i, ok)
	}
	if _, ok := s.Lookup("c"); ok {
		t.Error("c is a name")
	}
	s.Entries[0].Metadata = &workflow.Metadata{CreatedAt: 10}
	if all := s.ByAge(); all[0].ID != "1" || all[8].ID != "0" {
		t.Errorf("by age: %+v", all)
	}
	if got := s.Error.Error(); got != "gone: m" {
		t.Errorf("error: %s", got)
	}
}

// TestWords: each state and status is printed as the word in the store.
func TestWords(t *testing.T) {
	got := fmt.Sprintln(workflow.Pending, workflow.Running, workflow.Sleeping, workflow.Failed, workflow.Completed, workflow.Cancelled, workflow.RollingBack) +
		fmt.Sprintln(workflow.StatusPending, workflow.StatusRunning, workflow.StatusCompleted, workflow.StatusFailed, workflow.StatusExhausted) +
		fmt.Sprintln(workflow.SleepPending, workflow.SleepCompleted, workflow.SleepInterrupted) +
		fmt.Sprintln(workflow.WaitRun, workflow.WaitMessage, workflow.WaitTimer, workflow.WaitAttempt, workflow.WaitResume, workflow.WaitKind(9)) +
		fmt.Sprintln(workflow.BranchPending, workflow.BranchRunning, workflow.BranchCompleted, workflow.BranchFailed, workflow.BranchCancelled)
	want := "pending running sleeping failed completed cancelled rolling_back\n" +
		"pending running completed failed exhausted\n" +
		"pending completed interrupted\n" +
		"run message timer attempt resume unknown\n" +
		"pending running completed failed cancelled\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
