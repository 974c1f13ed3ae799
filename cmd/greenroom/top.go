package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
)

// A topCommand lists what actors have used.
type topCommand struct {
	output output
	selection
	by       string
	types    bool
	failures bool
	limit    int
}

// topOrders are the words of --by, in the order of the columns.
var topOrders = []string{"turns", "failed", "awake", "written", "rows"}

func (c topCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top STORE",
		Short: "List the actors that have used most",
		Long: `List what actors have used since they were created, those that have used most first: turns, those of
them that failed, the time that they were in memory, the bytes that they gave to the engine, and the rows that their SQL has read. A
statement reads the rows that it returns, or those that it goes through in full scans of tables if these are more.

greenroom host counts this, and stores it when an actor falls asleep, or within minutes while it writes; so does a program
with a host. Of actors that are awake the counts of now are listed, if that process has the store open: on
PostgreSQL the stored ones are.

--types sums up the actors of each type, and --failures lists what failed, by type, place and code, and when it last did.`,
		Example: `  greenroom top data
  greenroom top data --by rows --named chat/
  greenroom top data --failures --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.types && c.failures:
				return serving.Usage("either --types or --failures")
			case !slices.Contains(topOrders, c.by):
				return serving.Usage(fmt.Sprintf("--by %s: it is %s", c.by, strings.Join(topOrders, ", ")))
			case c.limit < 0:
				return serving.Usage("a negative --limit")
			}
			if err := c.parse(time.Now()); err != nil {
				return err
			}
			return readStore(cmd.Context(), target{url: args[0], env: c.output.env}, func(s *storeurl.Store) error { return c.list(cmd.Context(), s) })
		},
	}
	logRestFlag(cmd, c.output.env)
	c.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&c.by, "by", "turns", "order by `WHAT`: "+strings.Join(topOrders, ", "))
	f.BoolVar(&c.types, "types", false, "sum up the actors of each type")
	f.BoolVar(&c.failures, "failures", false, "list what failed")
	f.IntVar(&c.limit, "limit", 20, "list at most `N`; 0 means all")
	f.BoolVar(&c.output.json, "json", false, "write an array of objects")
	return cmd
}

// A topRow is a row of the list: an actor, or the actors of a type.
type topRow struct {
	name   string
	id     actorstore.ID // zero for a type
	actors int
	actorstore.Usage
}

// list lists what the actors that are chosen have used.
func (c *topCommand) list(ctx context.Context, s *storeurl.Store) error {
	unstored, err := s.Unstored(ctx)
	if err != nil {
		return err
	}
	more := map[actorstore.ID]*actorstore.Usage{}
	for i := range unstored {
		more[unstored[i].ID] = &unstored[i].Usage
	}
	t := tops{types: map[string]*topRow{}, failures: map[failureKey]*actorstore.Failure{}}
	for info, err := range s.Actors(ctx, &c.ActorsOptions) {
		if err != nil {
			return err
		}
		row := topRow{name: info.Name, id: info.ID, actors: 1, Usage: info.Usage}
		if u := more[info.ID]; u != nil {
			row.Add(u)
		}
		if row.IsZero() {
			continue
		}
		if t.add(row); c.limit > 0 && len(t.actors) >= 2*c.limit+1000 {
			t.actors = c.most(t.actors)
		}
	}
	switch {
	case c.failures:
		return c.listFailures(t.failures)
	case c.types:
		t.actors = nil
		for _, row := range t.types {
			t.actors = append(t.actors, *row)
		}
	}
	c.output.columns = "name id turns failed awake written rows"
	if c.types {
		c.output.columns = "type actors turns failed awake written rows"
	}
	return list(c.output, all(c.most(t.actors)), func(r topRow) ([]any, error) {
		first := []any{maybe(r.name), r.id}
		if c.types {
			first[1] = r.actors
		}
		return append(first, r.Turns, r.Failed(), r.Awake, r.Written, r.Rows), nil
	})
}

// tops is what a listing adds up.
type tops struct {
	actors   []topRow
	types    map[string]*topRow
	failures map[failureKey]*actorstore.Failure
}

// A failureKey says what failed, and how.
type failureKey struct{ kind, place, code string }

// add adds an actor.
func (t *tops) add(row topRow) {
	t.actors = append(t.actors, row)
	kind, _, typed := strings.Cut(row.name, "/")
	if !typed {
		kind = ""
	}
	sum := t.types[kind]
	if sum == nil {
		sum = &topRow{name: kind}
		t.types[kind] = sum
	}
	sum.actors++
	sum.Add(&row.Usage)
	for _, f := range row.Failures {
		key := failureKey{kind, f.Place, f.Code}
		all := t.failures[key]
		if all == nil {
			all = &actorstore.Failure{}
			t.failures[key] = all
		}
		all.Count += f.Count
		if f.Last.After(all.Last) {
			all.Last = f.Last
		}
	}
}

// most sorts rows, and leaves those that have used most.
func (c *topCommand) most(rows []topRow) []topRow {
	of := func(r *topRow) int64 {
		return [...]int64{r.Turns, r.Failed(), int64(r.Awake), r.Written, r.Rows}[slices.Index(topOrders, c.by)]
	}
	slices.SortFunc(rows, func(a, b topRow) int {
		return cmp.Or(cmp.Compare(of(&b), of(&a)), cmp.Compare(a.name, b.name), cmp.Compare(a.id.String(), b.id.String()))
	})
	if c.limit > 0 && len(rows) > c.limit {
		rows = rows[:c.limit]
	}
	return rows
}

// listFailures lists failures, the most frequent ones first.
func (c *topCommand) listFailures(of map[failureKey]*actorstore.Failure) error {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b failureKey) int {
		return cmp.Or(cmp.Compare(of[b].Count, of[a].Count), cmp.Compare(a.kind, b.kind), cmp.Compare(a.place, b.place), cmp.Compare(a.code, b.code))
	})
	if c.limit > 0 && len(keys) > c.limit {
		keys = keys[:c.limit]
	}
	c.output.columns = "type place code count last"
	return list(c.output, all(keys), func(k failureKey) ([]any, error) {
		return []any{maybe(k.kind), maybe(k.place), k.code, of[k].Count, of[k].Last}, nil
	})
}
