package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/workflow"
)

// A selection is which actors a command is about, as its flags say.
type selection struct {
	greenroom.ActorsOptions
	labels      []string
	wakesBefore string
	idle        serving.Duration
	order       string
}

// orders are the words of --order.
var orders = []struct {
	word  string
	order actorstore.Order
}{
	{"name", actorstore.OrderName}, {"since", actorstore.OrderSince}, {"schema", actorstore.OrderSchema},
	{"wake", actorstore.OrderWake}, {"slept", actorstore.OrderSlept},
}

// searchHelp is what the help of commands says about the flags of a selection.
const searchHelp = `The actors are found by an index, so that a search costs no more in a store that has many others. A label is what the
actor's code has set with Label. Of a store that an older version has made, the index is built by "greenroom host", or by
"greenroom check --repair".`

// flags adds the flags by which actors are chosen.
func (s *selection) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.Prefix, "named", "", "actors whose names begin with `PREFIX`, as TYPE/ for all of a type")
	f.StringArrayVar(&s.labels, "label", nil, "actors with the label `KEY=VALUE`; may be set more than once")
	f.StringArrayVar(&s.Workflow, "state", nil, "actors whose workflow is in this `STATE`: "+strings.Join(workflowStates(), ", ")+"; may be set more than once")
	f.BoolVar(&s.Stuck, "stuck", false, "actors with a workflow that nothing wakes that comes by itself")
	f.Uint64Var(&s.SchemaBelow, "schema-below", 0, "actors whose database has a PRAGMA user_version below `N`, but not 0")
	f.StringVar(&s.wakesBefore, "wakes-before", "", "actors that must be woken before a `TIME`: 2030-01-02T15:04:05Z, or a duration from now")
	f.Var(&s.idle, "idle", "actors that last fell asleep so long ago, as 30d")
}

// listFlags adds flags, and those by which a list is ordered and bounded.
func (s *selection) listFlags(cmd *cobra.Command) {
	s.flags(cmd)
	words := make([]string, len(orders))
	for i, o := range orders {
		words[i] = o.word
	}
	cmd.Flags().StringVar(&s.order, "order", "", "by `WHAT`, leaving out actors without it: "+strings.Join(words, ", ")+" (since when the workflow is in its state)")
	cmd.Flags().IntVar(&s.Limit, "limit", 0, "list at most `N` actors; 0 means all")
}

// chosen reports whether any flag chooses actors.
func (s *selection) chosen() bool {
	return s.Prefix != "" || s.Labels != nil || s.Workflow != nil || s.Stuck || s.SchemaBelow != 0 || !s.WakesBefore.IsZero() || !s.SleptBefore.IsZero()
}

// parse checks the flags.
func (s *selection) parse(now time.Time) error {
	if s.Limit < 0 {
		return serving.Usage("a negative --limit")
	}
	for _, l := range s.labels {
		key, value, ok := strings.Cut(l, "=")
		if err := actorstore.CheckLabel(key, value); !ok || err != nil || value == "" {
			return serving.Usage(fmt.Sprintf("--label %s: a label is KEY=VALUE", l))
		}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		if has, twice := s.Labels[key]; twice && has != value {
			return serving.Usage(fmt.Sprintf("--label %s: no actor has two values of one label", l))
		}
		s.Labels[key] = value
	}
	for _, state := range s.Workflow {
		if !slices.Contains(workflowStates(), state) {
			return serving.Usage(fmt.Sprintf("--state %s: a workflow is %s", state, strings.Join(workflowStates(), ", ")))
		}
	}
	slices.Sort(s.Workflow)
	s.Workflow = slices.Compact(s.Workflow)
	if s.wakesBefore != "" {
		at, err := time.Parse(time.RFC3339, s.wakesBefore)
		if d, derr := serving.ParseDuration(s.wakesBefore); derr == nil {
			at, err = now.Add(d), nil
		}
		if err != nil {
			return serving.Usage(fmt.Sprintf("--wakes-before %s: neither a time, such as 2030-01-02T15:04:05Z, nor a duration", s.wakesBefore))
		}
		s.WakesBefore = at
	}
	if s.idle > 0 {
		s.SleptBefore = now.Add(-time.Duration(s.idle))
	}
	if s.order == "" {
		return nil
	}
	for _, o := range orders {
		if o.word == s.order {
			s.Order = o.order
			return nil
		}
	}
	return serving.Usage(fmt.Sprintf("--order %s is none of the orders that greenroom help ls lists", s.order))
}

// workflowStates are the words of the states, in their order.
func workflowStates() (words []string) {
	for s := workflow.Pending; s <= workflow.RollingBack; s++ {
		words = append(words, s.String())
	}
	return words
}

// labelsInWords returns labels as KEY=VALUE, in the order of their keys, with a space between them.
func labelsInWords(labels map[string]string) maybe {
	words := make([]string, 0, len(labels))
	for key, value := range labels {
		words = append(words, key+"="+value)
	}
	slices.Sort(words)
	return maybe(oneLine(strings.Join(words, " ")))
}
