package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
)

func TestParseEngine(t *testing.T) {
	for _, test := range []struct{ text, engine, url string }{
		{"pebble", enginePebble, ""},
		{"mem", engineMem, ""},
		{"postgres", enginePostgres, ""},
		{"postgres://u:p@h/d?sslmode=disable", enginePostgres, "postgres://u:p@h/d?sslmode=disable"},
		{"postgresql://h/d", enginePostgres, "postgresql://h/d"},
	} {
		engine, url, err := parseEngine(test.text)
		if engine != test.engine || url != test.url || err != nil {
			t.Errorf("%s: got %q, %q, %v", test.text, engine, url, err)
		}
	}
	for text, want := range map[string]string{
		"sqlite":                          `no engine is called "sqlite"`,
		"mem:":                            `no engine is called "mem:"`,
		"data":                            `no engine is called "data"`,
		"postgres//u:secret@h/d":          `no engine is called "postgres//…@h/d"`,
		"mysql://u:secret@h/d":            `no engine is called "mysql://…@h/d"`,
		"postgres://u:secret@h/?schema=a": "may not name a schema",
		"postgres://u:secret@h/?schema=%": "may not name a schema",
	} {
		_, _, err := parseEngine(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestNewStore: every store of a run has an address of its own.
func TestNewStore(t *testing.T) {
	seen := map[string]bool{}
	for url, want := range map[string]string{
		"postgres://h/d":                 "postgres://h/d?schema=greenroom_bench_",
		"postgres://h/d?sslmode=disable": "postgres://h/d?sslmode=disable&schema=greenroom_bench_",
	} {
		s := &server{url: url}
		for range 10 {
			got := s.newStore()
			if name, ok := strings.CutPrefix(got, want); !ok || len(name) != 26 || seen[name] {
				t.Errorf("%s: got %s after %v", url, got, seen)
			} else {
				seen[name] = true
			}
		}
	}
}

// TestServerIsDescribed: the address of a server is shown without its password.
func TestServerIsDescribed(t *testing.T) {
	got := (&server{url: "postgres://u:secret@h/d?password=secret"}).describe()
	if want := "postgres://u@h/d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestServerMissing: without PostgreSQL a run says what to do.
func TestServerMissing(t *testing.T) {
	err := startError(fmt.Errorf("%w: nowhere", pglocal.ErrMissing))
	for _, what := range []string{"install PostgreSQL 14 or newer", "-engine postgres://USER@HOST/DATABASE"} {
		if !errors.Is(err, pglocal.ErrMissing) || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want it to say %q", err, what)
		}
	}
	if err := startError(errScript); !errors.Is(err, errScript) || strings.Contains(err.Error(), "install") {
		t.Errorf("got %v", err)
	}
}
