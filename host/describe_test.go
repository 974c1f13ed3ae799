package host

import (
	"encoding/json"
	"testing"
)

// TestDescribe: what may be called of the types, in the order of the names.
func TestDescribe(t *testing.T) {
	type line struct {
		Text string `json:"text"`
		Note string `json:"note,omitempty"`
	}
	r := newRig(t, Options{}, thing(add, NewCommand("stop", func(*Context, struct{}) error { return nil })), &Type{
		Name: "any", Version: "2", Other: func(*Context, string, Raw) (Raw, error) { return nil, nil },
		Actions: []AnyAction{
			NewJointAction("both", func(Address, line) ([]Address, error) { return nil, nil }, func(*Context, []*Context, line) ([]line, error) { return nil, nil }),
			NewAction("raw", func(*Context, Raw) (Raw, error) { return nil, nil }),
		},
	})
	defer r.close()
	got, err := json.Marshal(r.Describe())
	must(t, err)
	const aLine = `{"properties":{"note":{"type":"string"},"text":{"type":"string"}},"required":["text"],"type":"object"}`
	want := `[{"name":"any","version":"2","actions":[{"name":"both","args":` + aLine + `,"result":{"items":` + aLine + `,"type":"array"}},{"name":"raw","args":{},"result":{}}],"other":true},` +
		`{"name":"thing","actions":[{"name":"add","args":{"type":"integer"},"result":{"type":"integer"}},{"name":"stop","args":null,"result":null}]}]`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
