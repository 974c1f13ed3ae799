package cbor

import (
	"reflect"
	"strings"
	"testing"
)

// TestFromJSON: numbers are integers where they can be, and members keep their order.
func TestFromJSON(t *testing.T) {
	got, err := FromJSON([]byte(`{"b":[1,2.5,"x",null,true],"a":1,"b":18446744073709551615,"c":{}} `))
	want := Object{{Name: "b", Value: uint64(1<<64 - 1)}, {Name: "a", Value: int64(1)}, {Name: "c", Value: Object{}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v, want %#v", got, err, want)
	}
	for text, want := range map[string]any{` "a\u00e9\n" `: "aé\n", "\n\ttrue": true, "false": false, " null\r\n": nil, "\"\xff\"": "\ufffd"} {
		if got, err := FromJSON([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %#v, %v, want %#v", text, got, err, want)
		}
	}
	text := []byte(`"a text"`)
	if n := testing.AllocsPerRun(100, func() { _, _ = FromJSON(text) }); n > 5 {
		t.Errorf("a text allocates %v times, bound 5", n)
	}
	if got, err := FromJSON([]byte(strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1))); err == nil {
		t.Errorf("took %v", got)
	}
}

// TestFromJSONRefuses: what is not one value is an error.
func TestFromJSONRefuses(t *testing.T) {
	for _, text := range []string{"", "{", "[1", `{"a"`, `{"a":`, "[1,]", "{1:2}", "1 1", `"a" 1`, `"a`, "true false", "nul", "1e999", `{"a":1}}`} {
		if v, err := FromJSON([]byte(text)); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}
