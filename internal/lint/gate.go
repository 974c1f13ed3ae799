package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gateScript is the gate.
const gateScript = ".ci/run"

// testLists are the files in which the gate lists tests by package: those that the step journal runs, and those that race leaves out.
var testLists = []string{".ci/journal.txt", ".ci/alone.txt"}

// maxGateSeconds bounds what the steps of the gate may take together.
const maxGateSeconds = 20 * 60

// A gateStep is a line of the table of gateScript.
type gateStep struct {
	name    string
	seconds int    // at most
	lane    string // "a" or "b" if the step runs beside those of the other lane, else "-"
	runs    string // what it does
}

// gateSteps reads the table in the script: the lines between gate=' and the next quotation mark, which begins a line.
func gateSteps(script string) ([]gateStep, error) {
	_, rest, ok := strings.Cut(script, "\ngate='\n")
	table, _, _ := strings.Cut(rest, "'")
	if !ok || !strings.HasSuffix(table, "\n") {
		return nil, fmt.Errorf("lint: %s has no table of its steps", gateScript)
	}
	var steps []gateStep
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 {
			return nil, fmt.Errorf("lint: %s: the step %q isn't a name, seconds, a lane and what it does", gateScript, line)
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("lint: %s: %w", gateScript, err)
		}
		steps = append(steps, gateStep{f[0], n, f[2], strings.Join(f[3:], " ")})
	}
	return steps, nil
}

// gateSeconds adds up the steps, of two lanes beside each other the slower one.
func gateSeconds(steps []gateStep) (sum int) {
	lanes := map[string]int{}
	for _, s := range append(slices.Clone(steps), gateStep{lane: "-"}) {
		if s.lane != "-" {
			lanes[s.lane] += s.seconds
			continue
		}
		sum += max(lanes["a"], lanes["b"]) + s.seconds
		clear(lanes)
	}
	return sum
}

// renderGate returns the table of the steps in Markdown. It ends with a newline.
func renderGate(steps []gateStep) string {
	var b strings.Builder
	b.WriteString("| step | lane | seconds at most | runs |\n| --- | --- | --- | --- |\n")
	for _, s := range steps {
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s |\n", s.name, strings.Trim(s.lane, "-"), s.seconds, s.runs)
	}
	fmt.Fprintf(&b, "| together | | %d | |\n", gateSeconds(steps))
	return b.String()
}

// checkGate holds the script against the tree: the gate ends in time, and what it lists is there.
func checkGate(t *tree) []finding {
	script, _ := t.text(gateScript)
	steps, err := gateSteps(script)
	if err != nil {
		return []finding{{gateScript, 0, err.Error()}}
	}
	var fs []finding
	if n := gateSeconds(steps); n > maxGateSeconds {
		fs = append(fs, finding{gateScript, 0, fmt.Sprintf("the steps may take %d seconds, more than %d", n, maxGateSeconds)})
	}
	for _, s := range steps {
		if !strings.Contains(script, "\nstep_"+s.name+"() {") {
			fs = append(fs, finding{gateScript, 0, "has no function for the step " + s.name})
		}
	}
	for _, run := range []string{"long", "nightly"} {
		fs = append(fs, checkParts(script, run)...)
	}
	_, rest, _ := strings.Cut(script, "\nlongest=(")
	longest, _, _ := strings.Cut(rest, ")")
	for _, dir := range strings.Fields(longest) {
		if !t.Paths[strings.TrimSuffix(strings.TrimPrefix(dir, "./"), "/...")] {
			fs = append(fs, finding{gateScript, 0, "lists " + dir + " among the longest, which isn't there"})
		}
	}
	tests := testNames(t)
	for _, list := range testLists {
		fs = append(fs, checkTestList(t, list, tests)...)
	}
	return fs
}

// checkParts wants a function for each part of a run, and each such function among its parts.
func checkParts(script, run string) (fs []finding) {
	_, rest, _ := strings.Cut(script, "\n"+run+"_parts=(")
	list, _, _ := strings.Cut(rest, ")")
	parts := strings.Fields(list)
	var functions []string
	for _, m := range partFunction.FindAllStringSubmatch(script, -1) {
		if m[1] == run {
			functions = append(functions, m[2])
		}
	}
	for _, part := range parts {
		if !slices.Contains(functions, part) {
			fs = append(fs, finding{gateScript, 0, "has no function for the part " + part + " of " + run})
		}
	}
	for _, name := range functions {
		if !slices.Contains(parts, name) {
			fs = append(fs, finding{gateScript, 0, "has a function for " + name + ", which is no part of " + run})
		}
	}
	return fs
}

// partFunction is the beginning of the function of a part of a longer run.
var partFunction = regexp.MustCompile(`(?m)^(long|nightly)_([a-z_]+)\(\) \{`)

// checkTestList wants every test that the list names among tests.
func checkTestList(t *tree, path string, tests map[string]bool) []finding {
	list, ok := t.text(path)
	if !ok {
		return []finding{{path, 0, "is missing"}}
	}
	var fs []finding
	line := 0
	for text := range strings.Lines(list) {
		line++
		dir, name, _ := strings.Cut(strings.TrimSpace(text), " ")
		if dir == "#" || dir == "" {
			continue
		}
		dir = strings.TrimPrefix(dir, "./")
		if !tests[folderName(dir)+"."+name] {
			fs = append(fs, finding{path, line, "lists the test " + name + " of " + dir + ", which isn't there"})
		}
	}
	return fs
}
