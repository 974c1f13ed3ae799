package browsertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/testkit"
)

// The checker of accessibility, https://github.com/dequelabs/axe-core, of the npm registry: MPL-2.0, used by tests alone.
const (
	axePackage = "axe-core@4.14.1"
	axeSum     = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==" // SHA-512 of the package, in base64
)

// requireAxe has tests fail where the package can't be had.
const requireAxe = "GREENROOM_REQUIRE_AXE"

// Axe returns the script that Accessible runs. Where it can't be had it skips the test, or fails if GREENROOM_REQUIRE_AXE is set.
func Axe(t *testing.T) string {
	t.Helper()
	script, err := axe(t)
	if err != nil && os.Getenv(requireAxe) == "" {
		t.Skipf("%s can't be had: %v", axePackage, err)
	}
	testkit.Must(t, err)
	return script
}

// axe fetches the package, unless it was fetched before.
func axe(t *testing.T) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(cache, "greenroom-test", strings.ReplaceAll(axePackage, "@", "-")+".tgz")
	data, err := os.ReadFile(name)
	if err != nil {
		if data, err = pack(t); err != nil {
			return "", err
		}
		// Tests of other packages may write the same at the same time.
		own := fmt.Sprintf("%s.%d", name, os.Getpid())
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(own, data, 0o600), os.Rename(own, name)); err != nil {
			return "", err
		}
	}
	if sum := sha512.Sum512(data); base64.StdEncoding.EncodeToString(sum[:]) != axeSum {
		return "", fmt.Errorf("%s has other bytes than %s", name, axePackage)
	}
	return unpack(data, "package/axe.min.js")
}

// pack has npm fetch the package.
func pack(t *testing.T) ([]byte, error) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(time.Minute))
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", axePackage)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, strings.ReplaceAll(axePackage, "@", "-")+".tgz"))
}

// unpack returns a file of a package.
func unpack(data []byte, name string) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err != nil {
			return "", errors.Join(err, fmt.Errorf("the package has no %s", name))
		}
		if h.Name == name {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}

// Accessible fails the test for each rule of accessibility that the page breaks. script is what Axe returned.
func (p *Tab) Accessible(script string) {
	p.t.Helper()
	p.Eval(script + "; 0")
	var broken []struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}
	text := p.Eval(`axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations))`)
	testkit.Must(p.t, json.Unmarshal([]byte(text), &broken))
	for _, b := range broken {
		for _, n := range b.Nodes[:min(3, len(b.Nodes))] {
			p.t.Errorf("%s: %s: %.300s\n%s", b.ID, b.Help, n.HTML, n.FailureSummary)
		}
	}
}
