package rivetstore_test

import (
	"slices"
	"testing"

	rs "github.com/greenroomdb/greenroom/rivetkit/internal/rivetstore"
)

// TestKey: keys as published clients write them, and some more.
func TestKey(t *testing.T) {
	for _, tt := range []struct {
		s   string
		key rs.Key
	}{
		{"/", rs.Key{}},
		{`\0`, rs.Key{""}},
		{"a/b", rs.Key{"a", "b"}},
		{`a\/b`, rs.Key{"a/b"}},
		{`a\\b`, rs.Key{`a\b`}},
		{"ä ö/?&#", rs.Key{"ä ö", "?&#"}},
		{"plain", rs.Key{"plain"}},

		{"0", rs.Key{"0"}},
		{`\\0`, rs.Key{`\0`}},
		{`\/`, rs.Key{"/"}},
		{`\\`, rs.Key{`\`}},
		{`\\\/`, rs.Key{`\/`}},
		{`\0/\0`, rs.Key{"", ""}},
		{`\0/a/\0`, rs.Key{"", "a", ""}},
		{"a,b", rs.Key{"a,b"}},
	} {
		if got := tt.key.String(); got != tt.s {
			t.Errorf("%q is written %s, want %s", []string(tt.key), got, tt.s)
		}
		if got, err := rs.ParseKey(tt.s); err != nil || !slices.Equal(got, tt.key) {
			t.Errorf("%s is read as %q, %v; want %q", tt.s, []string(got), err, []string(tt.key))
		}
	}
	if got := rs.Key(nil).String(); got != "/" {
		t.Errorf("no parts are written %s", got)
	}
}

// TestForeignKey: what String doesn't write is read, and has one form when it is written again.
func TestForeignKey(t *testing.T) {
	for s, want := range map[string]string{
		"a//b":   `a/\0/b`,
		"//":     `\0/\0/\0`,
		"/a":     `\0/a`,
		"a/":     `a/\0`,
		`\x`:     "x",
		`a\0b`:   "ab",
		`\0\0/b`: `\0/b`,
	} {
		key, err := rs.ParseKey(s)
		if got := key.String(); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", `\`, `a\`, `a/\`, `\\\`} {
		if key, err := rs.ParseKey(s); err == nil {
			t.Errorf("%q is read as %q, %v", s, []string(key), err)
		}
	}
}

// FuzzParseKey: what is read of any string is written in one form, which is read as the same.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"", "/", `\0`, `a\/b/c`, `\`, "//", "ä ö/?&#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := rs.ParseKey(s)
		if err != nil {
			return
		}
		again, err := rs.ParseKey(key.String())
		if err != nil || !slices.Equal(again, key) || again.String() != key.String() {
			t.Errorf("%q is %q, which is read as %q, %v", s, []string(key), []string(again), err)
		}
	})
}
