package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A page is what bench/report makes a page with charts of.
type page struct {
	// Facts say what was measured on.
	Facts facts    `json:"facts"`
	Lines []record `json:"lines"`
	// Before are those of the run that this one is compared with; none if it isn't.
	Before []record `json:"before,omitempty"`
}

// writePage writes p to a file. The charts are drawn by a program of another module, so that
// programs that use Greenroom don't inherit their library.
func writePage(s *stand, path string, p page) {
	peers, ok := peersDir()
	if !ok {
		check(errors.New("-html builds bench/report, which needs Go and Greenroom's source: run it as go run ./bench"))
	}
	cmd := exec.CommandContext(s.ctx, build(s, filepath.Join(peers, "..", "report")))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(must(json.Marshal(p))), os.Stderr
	html, err := cmd.Output()
	if err != nil {
		check(fmt.Errorf("draw the page: %w", err))
	}
	check(os.WriteFile(path, html, 0o644))
}
