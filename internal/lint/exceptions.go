package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// exceptionsPage lists what breaks a rule today and with which numbers. Lines that are empty or start with
// "#" are comments. The numbers only go down: code that gets better takes its line with it.
const exceptionsPage = "internal/lint/exceptions.txt"

// An exception is one line of exceptionsPage: a rule, a name, and the counts that are allowed.
type exception struct {
	rule, name string
	counts     []int
}

// String returns the line of e.
func (e exception) String() string {
	line := e.rule + " " + e.name
	for _, n := range e.counts {
		line += " " + strconv.Itoa(n)
	}
	return line
}

// parseException reads a line that is not a comment.
func parseException(line string) (e exception, err error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return e, fmt.Errorf("lint: %q is not a rule, a name and numbers", line)
	}
	e.rule, e.name = fields[0], fields[1]
	for _, field := range fields[2:] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return e, err
		}
		e.counts = append(e.counts, n)
	}
	return e, nil
}

// ratchets are the rules with exceptions, by name.
var ratchets = map[string]func(*tree) ([]measured, []finding){
	"methods": measureMethods,
	"order":   measureOrder,
	"upward":  measureUpward,
	"prose":   measureProse,
}

// checkRatchet returns the check of a rule with exceptions.
func checkRatchet(rule string) func(*tree) []finding {
	return func(t *tree) []finding {
		ms, fs := ratchets[rule](t)
		page, _ := t.text(exceptionsPage)
		line := 0
		for text := range strings.Lines(page) {
			line++
			if isComment(text) {
				continue
			}
			e, err := parseException(text)
			if err == nil && ratchets[e.rule] == nil {
				err = fmt.Errorf("lint: no rule %s has exceptions", e.rule)
			}
			if err != nil {
				fs = append(fs, finding{exceptionsPage, line, err.Error()})
			}
			if err != nil || e.rule != rule {
				continue
			}
			i := slices.IndexFunc(ms, func(m measured) bool { return m.name == e.name })
			if i < 0 {
				fs = append(fs, finding{exceptionsPage, line, e.name + " isn't there any more: " + howToLower})
				continue
			}
			fs = append(fs, e.compare(ms[i], line)...)
			ms = slices.Delete(ms, i, i+1)
		}
		// What is left has no line.
		for _, m := range ms {
			if m.over {
				fs = append(fs, m.finding(""))
			}
		}
		return fs
	}
}

// howToLower is the command that takes the numbers down.
const howToLower = "go test ./internal/lint -update"

// compare says what is wrong with e, of line, today.
func (e exception) compare(m measured, line int) []finding {
	switch {
	case len(e.counts) != len(m.counts):
		return []finding{{exceptionsPage, line, fmt.Sprintf("%s has %d numbers, not %d", e.name, len(m.counts), len(e.counts))}}
	case !m.over:
		return []finding{{exceptionsPage, line, e.name + " needs no exception any more: " + howToLower}}
	case slices.Equal(e.counts, m.counts):
		return nil
	// Nothing grew, and something shrank.
	case e.lowered(m).String() == exception{e.rule, e.name, m.counts}.String():
		return []finding{{exceptionsPage, line, fmt.Sprintf("%s got better, it is at %v: %s", e.name, m.counts, howToLower)}}
	}
	return []finding{m.finding(fmt.Sprintf(" (%v are excepted)", e.counts))}
}

// lowered returns e with the counts of m where those are less.
func (e exception) lowered(m measured) exception {
	counts := slices.Clone(e.counts)
	for i := range min(len(counts), len(m.counts)) {
		counts[i] = min(counts[i], m.counts[i])
	}
	return exception{e.rule, e.name, counts}
}

// renderExceptions returns exceptionsPage with lower numbers where the tree has got better, and without the
// lines that nothing needs any more. It adds no line and raises no number: that is for people to do.
func renderExceptions(t *tree) (string, error) {
	// By rule and name, as a line begins.
	now := map[string]measured{}
	for rule, measure := range ratchets {
		ms, broken := measure(t)
		if len(broken) > 0 {
			return "", fmt.Errorf("lint: %v", broken[0])
		}
		for _, m := range ms {
			if m.over {
				now[rule+" "+m.name] = m
			}
		}
	}
	page, _ := t.text(exceptionsPage)
	var b strings.Builder
	for line := range strings.Lines(page) {
		if isComment(line) {
			b.WriteString(line)
			continue
		}
		e, err := parseException(line)
		if err != nil {
			return "", err
		}
		if m, ok := now[e.rule+" "+e.name]; ok {
			b.WriteString(e.lowered(m).String() + "\n")
		}
	}
	return b.String(), nil
}

// isComment says whether a line of exceptionsPage is for readers only.
func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}
