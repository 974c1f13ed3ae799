package lint

import (
	"strings"
	"testing"
)

const errkindImport = `import ("errors"; "fmt"; "example.com/house/internal/errkind"; "example.com/house/kv"); `

var errorCases = []ruleCase{
	{"of a kind", "errors", map[string]string{
		"cmd/greenroom/main.go": `package main; import "errors"; var ErrUsage = errors.New("x")`,
		"internal/cbor/a.go":    `package cbor; import "errors"; var ErrMalformed = errors.New("x")`,
		"inspector/a.go":        `package inspector; ` + errkindImport + `var ErrClosed = errkind.New("x", errkind.ErrClosed)`,
		"inspector/b.go": `package inspector; ` + errkindImport + `
			var (
				ErrDoor   = fmt.Errorf("%w: door", ErrClosed)
				ErrShut   = errkind.ErrClosed
				errWindow = errors.New("x")
				ErrTimes  = 3
			)
			type Broken struct{}
			func (*Broken) Error() string { return "" }
			func (*Broken) Unwrap() error { return nil }
			type cracked struct{}
			func (cracked) Error() string { return "" }
			type Door struct{}
			func (Door) Open() {}`,
		"inspector/a_test.go": `package inspector; import "errors"; var ErrTest = errors.New("x")`,
	}, []string{"inspector/b.go:6: inspector.ErrTimes is of none"}},
	{"of none", "errors", map[string]string{
		"inspector/a.go": `package inspector
			` + errkindImport + `
			var (
				ErrA = errors.New("x")
				ErrB = fmt.Errorf("x %v", ErrD)
				ErrC = kv.ErrElsewhere
				ErrD = errkind.New("x", errkind.ErrClosed)
				ErrE, ErrF error
				ErrG = &Broken{}
			)
			type Broken struct{}
			func (Broken) Error() string { return "" }`,
	}, []string{"inspector/a.go:4: inspector.ErrA is of none of the kinds", "inspector/a.go:5: inspector.ErrB",
		"inspector/a.go:6: inspector.ErrC", "inspector/a.go:8: inspector.ErrE", "inspector/a.go:8: inspector.ErrF",
		"inspector/a.go:9: inspector.ErrG", "inspector/a.go:12: inspector.Broken"}},
}

// TestPlainErrors: what is in the list is neither gone nor of a kind.
func TestPlainErrors(t *testing.T) {
	tree := fake(t, map[string]string{
		"vfs/a.go":          `package vfs; ` + errkindImport + `var (ErrA = errors.New("x"); ErrB = errkind.New("x", errkind.ErrClosed))`,
		"test/suite/go.mod": "module example.com/house/test/suite",
		"test/suite/a.go":   `package suite; import "errors"; var ErrX = errors.New("x")`,
	})
	got := sortFindings(compareErrors(tree, []plain{{"a reason", []string{"vfs.ErrA", "vfs.ErrB", "vfs.ErrGone", "queue.ErrNotBuiltYet"}}}))
	if len(got) != 2 || !strings.HasPrefix(got[0].String(), "vfs: has no vfs.ErrGone") || !strings.HasPrefix(got[1].String(), "vfs/a.go:1: vfs.ErrB is of a kind") {
		t.Errorf("got %v", got)
	}
	seen := map[string]bool{}
	for _, p := range plainErrors {
		for _, name := range p.Names {
			if seen[name] || p.Reason == "" {
				t.Errorf("%s is there twice, or without a reason", name)
			}
			seen[name] = true
		}
	}
}
