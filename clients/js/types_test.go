package js_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host"
	"github.com/greenroomdb/greenroom/host/front"
	"github.com/greenroomdb/greenroom/internal/testkit"
)

// A tree is a value that holds others of its type.
type tree struct {
	Name     string    `json:"name"`
	Branches []tree    `json:"branches"`
	Height   *float64  `json:"height"`
	Planted  time.Time `json:"planted"`
	Note     string    `json:"a note,omitempty"`
}

// An object is called as what TypeScript has another meaning for.
type object struct {
	In   *object
	Tree class[tree]
}

// A class holds others, of its type and of another one.
type class[T any] struct {
	Of   T
	Next *class[T]
}

// garden has actions of more kinds of values than the ledger.
func garden() *host.Type {
	return &host.Type{
		Name: "garden",
		Actions: []host.AnyAction{
			host.NewAction("grow", func(_ *host.Context, t tree) (tree, error) { return t, nil }),
			host.NewAction("by-name", func(*host.Context, struct{}) (map[string][]byte, error) { return nil, nil }),
			host.NewAction("class", func(_ *host.Context, _ object) (c class[int], _ error) { return c, nil }),
			host.NewAction("any", func(_ *host.Context, v host.Raw) (host.Raw, error) { return v, nil }),
		},
		Other: func(*host.Context, string, host.Raw) (host.Raw, error) { return nil, nil },
	}
}

const token = "a-secret-of-the-test"

// written returns what the generator writes for a host with a garden and a ledger.
func written(t *testing.T) (text, url string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("Node is missing: %v", err)
	}
	url = serve(t, &front.Options{Tokens: []string{token}}, garden())
	cmd := exec.CommandContext(t.Context(), node, "types.js", url)
	cmd.Env = append(os.Environ(), "GREENROOM_TOKEN="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	testkit.Must(t, err)
	return string(out), url
}

// TestGenerated: the generator writes the types of a host.
func TestGenerated(t *testing.T) {
	t.Parallel()
	got, _ := written(t)
	golden := filepath.Join("testdata", "actors.ts")
	want, err := os.ReadFile(golden)
	testkit.Must(t, err)
	if got != string(want) {
		t.Errorf("got\n%s\nwant %s:\n%s", got, golden, want)
	}
	node, err := exec.LookPath("node")
	testkit.Must(t, err)
	refusing := httptest.NewServer(nil)
	defer refusing.Close()
	for _, args := range [][]string{{}, {refusing.URL}, {"nowhere"}} {
		out, err := exec.CommandContext(t.Context(), node, append([]string{"types.js"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "greenroom-types") || strings.Contains(string(out), "    at ") {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
}

// TestTypes has TypeScript check the client, a program that uses it, and one that uses the types of a host, and React use the hook. It is skipped
// where npm can't install the versions of package-lock.json.
func TestTypes(t *testing.T) {
	if testkit.Short() {
		t.Skip("it installs a compiler")
	}
	t.Parallel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skipf("npm is missing: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{
		"package.json", "package-lock.json", "tsconfig.json", "greenroom.js", "react.js", "types.js", "testdata/use.ts", "testdata/useactors.ts", "testdata/react.js",
	} {
		text, err := os.ReadFile(name)
		testkit.Must(t, err)
		if name == "testdata/react.js" {
			name = "mount.js"
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644))
	}
	actors, url := written(t)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "actors.ts"), []byte(actors), 0o644))
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(npm, "ci", "--no-audit", "--no-fund", "--fetch-retries=0"); err != nil {
		t.Skipf("npm ci: %v: %s", err, out)
	}
	if out, err := run(npm, "run", "check"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A program in TypeScript has the types that the package brings along.
	if out, err := run(npm, "pack"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := run(npm, "exec", "--", "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--types", "", "--ignoreConfig", "use.ts", "useactors.ts"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	node, err := exec.LookPath("node")
	testkit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(30*time.Second))
	defer cancel()
	mount := exec.CommandContext(ctx, node, append(socketFlags(t, node), "mount.js", url, token)...)
	mount.Dir = dir
	out, err := mount.Output()
	if want := "ash connecting connected\nconnected\nclosed connected connected\nclosed\n"; err != nil || string(out) != want {
		t.Errorf("React: %v, got\n%s\nwant\n%s", err, out, want)
	}
}
