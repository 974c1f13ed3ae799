package kv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
)

func TestPrefixEnd(t *testing.T) {
	for _, test := range []struct{ prefix, want string }{
		{"a", "b"}, {"a\x00", "a\x01"}, {"a\xff", "b"}, {"a\xff\xff", "b"}, {"\xfe", "\xff"}, {"\xff", ""}, {"", ""},
	} {
		prefix := []byte(test.prefix)
		got := kv.PrefixEnd(prefix)
		if string(got) != test.want || (got == nil) != (test.want == "") {
			t.Errorf("%q: got %q, want %q", test.prefix, got, test.want)
		}
		if string(prefix) != test.prefix {
			t.Errorf("%q was changed to %q", test.prefix, prefix)
		}
	}
}
