package main

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"testing"
)

// staged calls do with a stand below at.dir, by default in a folder of the test, which fails
// if a check does.
func staged(t testing.TB, at site, do func(s *stand)) {
	t.Helper()
	at.dir = cmp.Or(at.dir, t.TempDir())
	at.pace = new(float64)
	if err := begin(t.Context()).visit(func(s *stand) { do(s.newStand(at, "side")) }); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(at.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestVisit: a visit returns what check ended it with, besides what closing says, closes in
// reverse order what was opened in it, and nothing else. What is not a check's panic goes on.
func TestVisit(t *testing.T) {
	s := begin(t.Context())
	var closed []string
	open := func(name string, err error) {
		s.end(func() error { closed = append(closed, name); return err })
	}
	errClose := errors.New("close failed")
	open("outer", nil)
	err := s.visit(func(*stand) {
		open("a", nil)
		open("b", errClose)
		check(errScript)
		t.Error("went on after a check")
	})
	if !errors.Is(err, errScript) || !errors.Is(err, errClose) || !slices.Equal(closed, []string{"b", "a"}) {
		t.Errorf("error %v, closed %q", err, closed)
	}
	if err := s.visit(func(*stand) { open("c", nil) }); err != nil {
		t.Errorf("error %v of a visit without one", err)
	}
	if err := s.close(); err != nil || !slices.Equal(closed, []string{"b", "a", "c", "outer"}) {
		t.Errorf("error %v, closed %q", err, closed)
	}
	defer func() {
		if r := recover(); r != "bug" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = s.visit(func(*stand) { panic("bug") }) // it panics
}

// TestTogether: workers share the operations, all are done, and the errors are those of all.
func TestTogether(t *testing.T) {
	var done [3]int
	var workers []worker
	for i := range done {
		workers = append(workers, repeat(func() error { done[i]++; return nil }))
	}
	s := &stand{workers: workers}
	if err := s.do(100); err != nil || done[0]+done[1]+done[2] != 100 {
		t.Errorf("%d operations were done, error %v", done, err)
	}
	s.workers = append(s.workers[:2:2], repeat(func() error { return errScript }), repeat(func() error { return errMore }))
	if err := together(s.workers, func(int) func() bool { return countdown(1) }); !errors.Is(err, errScript) || !errors.Is(err, errMore) {
		t.Errorf("error %v, want both", err)
	}
}

var errMore = errors.New("another one")
