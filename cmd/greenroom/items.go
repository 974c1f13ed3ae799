package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/itemstore"
)

// newItems returns the commands on items, each of which begins as c.
func newItems(c itemsCommand) *cobra.Command {
	return newGroup("items", "Look into the items at key paths, and put and remove some",
		newItemsList(c), newItemsGet(c), newItemsPut(c), newItemsRemove(c), newItemsSync(c),
		newItemsSchema(c), newItemsSweep(c), newItemsBuild(c), newItemsCheck(c))
}

func newItemsList(c itemsCommand) *cobra.Command {
	var o itemstore.ListOptions
	var filters []string
	var from, after, to, before string
	cmd := c.command(&cobra.Command{
		Use:   "ls STORE [PREFIX]",
		Short: "List the items whose paths begin with PREFIX, or all",
		Long: `List the items whose paths begin with PREFIX, as /course-MATH321/year-2023, in the order
of the paths; without PREFIX all items, each at its primary path. The columns are the
path, the type, when the item was last put, and its fields in JSON, shortened.

--from, --after, --to and --before are paths that begin with PREFIX. --filter has a type and
a condition in CEL about its items, which are this: see docs/expressions.md.

It is a table on a terminal, and elsewhere lines with fields separated by tabs.`,
		Example: `  greenroom items ls data /student-123
  greenroom items ls data /course-MATH321/year --from /course-MATH321/year-2023 --type Course
  greenroom items ls data /classof-2023 --filter 'Student=this.Name.startsWith("A")'`,
		Args: cobra.RangeArgs(1, 2),
	}, reads, func(ctx context.Context, s *itemstore.Store, args []string) error {
		if o.Limit < 0 {
			return serving.Usage("a negative --limit")
		}
		o.AtLeast, o.GreaterThan = itemstore.Path(from), itemstore.Path(after)
		o.AtMost, o.LessThan = itemstore.Path(to), itemstore.Path(before)
		for _, f := range filters {
			name, expr, ok := strings.Cut(f, "=")
			if o.Filters == nil {
				o.Filters = map[string]string{}
			}
			if _, twice := o.Filters[name]; !ok || twice {
				return serving.Usage(fmt.Sprintf("--filter %q: it takes TYPE=CONDITION, once for a type", f))
			}
			o.Filters[name] = expr
		}
		return c.list(s.List(ctx, itemstore.Path(strings.Join(args, "")), &o))
	})
	flags := cmd.Flags()
	flags.BoolVar(&o.Reverse, "reverse", false, "from the last path to the first")
	flags.IntVar(&o.Limit, "limit", 0, "at most `N` items; 0 means all")
	flags.StringArrayVar(&o.Types, "type", nil, "only items of the `TYPE` (may be repeated)")
	flags.StringArrayVar(&filters, "filter", nil, "of a type only the items for which a condition holds: `TYPE=CONDITION` (may be repeated)")
	flags.StringVar(&from, "from", "", "from this `PATH` on")
	flags.StringVar(&after, "after", "", "behind this `PATH`")
	flags.StringVar(&to, "to", "", "up to this `PATH`, without what is below it")
	flags.StringVar(&before, "before", "", "before this `PATH`")
	return c.jsonFlag(cmd, itemUsage)
}

func newItemsGet(c itemsCommand) *cobra.Command {
	return c.jsonFlag(c.command(&cobra.Command{
		Use:     "get STORE PATH…",
		Short:   "Write the fields of the items at the paths",
		Long:    "Write the fields of the items at the paths, primary ones or aliases, in JSON, an item a\nline, as put takes it. If one isn't there nothing is written.",
		Example: "  greenroom items get data /student-123",
		Args:    cobra.MinimumNArgs(2),
	}, reads, func(ctx context.Context, s *itemstore.Store, args []string) error {
		paths, err := pathsOf(args)
		if err != nil {
			return err
		}
		items, err := found(ctx, s, paths)
		if err != nil {
			return err
		}
		return lines(c.env.stdout, all(items), func(item itemstore.Item) any {
			if c.json {
				return lineOf(&item)
			}
			return item.Value
		})
	}), itemUsage)
}
