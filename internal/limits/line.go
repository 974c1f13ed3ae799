package limits

import (
	"github.com/greenroomdb/greenroom/kv"
)

// heads returns the first n claimants of the line, fewer if it is shorter. The values of Fair are served in turn, beginning behind the one that was served
// last, and the claimants of one value in the order in which they came.
func (s *state) heads(n int) ([]Head, error) {
	var groups [][]Head
	first, err := s.group(s.record.last, true, n)
	for wrapped := false; err == nil && len(groups) < n; {
		if first == nil {
			if wrapped {
				break
			}
			wrapped = true
			first, err = s.group("", false, n)
			if first == nil {
				break
			}
		}
		if wrapped && len(groups) > 0 && first[0].Fair == groups[0][0].Fair {
			break // all around
		}
		groups = append(groups, first)
		first, err = s.group(first[0].Fair, true, n)
	}
	if err != nil {
		return nil, err
	}
	var heads []Head
	for round := 0; len(heads) < n; round++ {
		before := len(heads)
		for _, g := range groups {
			if round < len(g) && len(heads) < n {
				heads = append(heads, g[round])
			}
		}
		if len(heads) == before {
			break
		}
	}
	return heads, nil
}

// group returns the first n claimants of the first value of Fair behind one, or, without behind, of the first value; nil without any.
func (s *state) group(fair string, behind bool, n int) ([]Head, error) {
	start, end := s.lines.Range()
	if behind {
		_, start = s.lines.Sub(fair).Range()
	}
	var all []Head
	for e, err := range s.limit.Engine.Scan(s.ctx, kv.Range{Start: start, End: end, Limit: n}) {
		if err != nil {
			return nil, err
		}
		h, err := parseLine(s.lines, e)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && h.Fair != all[0].Fair {
			break
		}
		all = append(all, h)
	}
	return all, nil
}
