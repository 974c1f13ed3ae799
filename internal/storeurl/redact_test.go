package storeurl

import (
	"strings"
	"testing"
)

func TestDisplay(t *testing.T) {
	for name, want := range map[string]string{
		"data":              "data",
		"pebble:a@b":        "pebble:a@b",
		"/srv/a:b@c":        "/srv/a:b@c",
		"mem:":              "mem:",
		"peble:x:secret@h":  "peble:…", // not the name of a store: nothing is known of it
		"postgres://h/d":    "postgres://h/d",
		"postgres://u@h/d":  "postgres://u@h/d",
		"postgres:u:secret": "postgres:…",
		"postgres://u:secret@h1:1,h2:2/d?password=secret": "postgres://u@h1:1,h2:2/d",
		"postgresql://u:se:c@r/et@h/d?schema=a%20b&x=y":   "postgresql://u@h/d?schema=a+b",
		"postgres://u:sec?ret@h/d":                        "postgres://…",
		"postgres://u:sec?schema=ret@h/d":                 "postgres://…",
		"postgres://u:secret@h/d?schema=%zz":              "postgres://u@h/d",
	} {
		if got := Display(name); got != want {
			t.Errorf("Display(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"data":                                "data",
		"a/b//c":                              "a/b//c",
		"me@home":                             "me@home",
		"12:30":                               "12:30",
		"postgres//u:secret@h/d":              "postgres//…@h/d",
		"postgres//u@h/d":                     "postgres//u@h/d",
		"//u:secret@h/d?x=secret":             "//…@h/d?…",
		"mysql://h/d?password=secret":         "mysql://h/d?…",
		"postgres//u:s/e@cr?et@h/d":           "postgres//…",
		"postgres:h/d?password=secret":        "postgres:…",
		"user://secret@h":                     "user://…@h",
		"u:secret@h/d":                        "u:…",
		"postgres:/u:secret@h/d":              "postgres:…",
		"u:secret//secret@h/d":                "u:…",
		"user@h:secret//secret@x":             "user@h:…",
		"--flag=postgres://u:secret@h":        "--flag=postgres://…@h",
		"postgres://u:secret@h/d?sslmode=off": "postgres://…@h/d?…",
	} {
		if got := Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzRedact: what stands between a colon and the last "@" of what Parse refuses, or
// takes as a server's address, is a password, and is shown by nothing.
func FuzzRedact(f *testing.F) {
	for _, seed := range [][3]string{
		{"postgres://u", "", "@h/d"}, {"postgres//u", "/", "@h/d?x=y"}, {"u", "?", "@h"}, {"//u", "@", "@h"},
		{"pebble://u", "//", "@h"}, {"mem://u", ":", "@h"}, {"u", "//", "@h"}, {"C", "x", "@h"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	const secret = "\x00secret\x00"
	f.Fuzz(func(t *testing.T, before, odd, after string) {
		if strings.Contains(before+odd+after, secret) || !strings.HasPrefix(after, "@") {
			t.Skip()
		}
		for _, name := range []string{before + ":" + secret + odd + after, before + ":" + odd + secret + after} {
			kind, _, err := Parse(name)
			if err == nil && kind != Postgres {
				continue // a directory
			}
			if got := Display(name); strings.Contains(got, secret) {
				t.Errorf("Display(%q) = %q", name, got)
			}
			if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("Parse(%q): %v", name, err)
			}
		}
	})
}
