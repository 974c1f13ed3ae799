package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// deployed is the folder with what is deployed beside a host.
const deployed = "../../deploy"

// metricName matches the name of a metric of Greenroom in an expression.
var metricName = regexp.MustCompile(`\bgreenroom_\w+`)

// TestBoard: the board and the rules ask for metrics that a host has.
func TestBoard(t *testing.T) {
	board, err := os.ReadFile(filepath.Join(deployed, "grafana/greenroom.json"))
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(board, &form); err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile(filepath.Join(deployed, "prometheus/greenroom.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string][]string{}
	for _, p := range form.Panels {
		for _, q := range p.Targets {
			asked["the panel "+p.Title] = append(asked["the panel "+p.Title], metricName.FindAllString(q.Expr, -1)...)
		}
	}
	for line := range strings.Lines(string(rules)) {
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			asked["the rule "+expr] = metricName.FindAllString(expr, -1)
		}
	}
	if len(asked) < 25 {
		t.Errorf("there are only %d panels and rules", len(asked))
	}
	p := startHost(t, "", "--demo", filepath.Join(t.TempDir(), "data"), "--backup", t.TempDir())
	there := fetch(t, p.url+"/metrics")
	for what, names := range asked {
		if len(names) == 0 && !strings.Contains(what, "up{") {
			t.Errorf("%s asks for nothing", what)
		}
		for _, name := range names {
			if !strings.Contains(there, "\n"+name+" ") && !strings.Contains(there, "\n"+name+"{") {
				t.Errorf("%s asks for %s, which a host doesn't have", what, name)
			}
		}
	}
}

// TestAlerts has promtool try the alert rules, and look at the names, units and help texts of a host's metrics.
func TestAlerts(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool, of Debian's package prometheus, isn't there: the alert rules aren't tried")
	}
	for _, args := range [][]string{{"check", "rules", "greenroom.rules.yml"}, {"test", "rules", "greenroom.test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = filepath.Join(deployed, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	p := startHost(t, "", "--demo", filepath.Join(t.TempDir(), "data"))
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(fetch(t, p.url+"/metrics"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
