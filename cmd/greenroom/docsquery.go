package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/serving"
)

// params are the values of p0, p1 and so on, in JSON.
type params []string

func (p *params) flag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVar((*[]string)(p), "param", nil, "the value of p0, the next time of p1 and so on, in `JSON` (may be repeated)")
	return cmd
}

// values returns the values.
func (p params) values() (values []any, err error) {
	for i, text := range p {
		v, err := valueOfJSON([]byte(text))
		if err != nil {
			return nil, serving.Usage(fmt.Sprintf("--param %s, which is p%d: %v", text, i, err))
		}
		values = append(values, v)
	}
	return values, nil
}

func newDocsFind(c docsCommand) *cobra.Command {
	var p page
	var with params
	cmd := c.command(&cobra.Command{
		Use:   "find STORE TYPE EXPRESSION",
		Short: "List the documents of a type for which an expression is true",
		Long: `List the documents of TYPE for which EXPRESSION is true, by path; an empty one is true for all.
The columns are the path, and the properties in JSON, shortened. Expressions are CEL: see
docs/expressions.md. explain says how the documents are found.`,
		Example: `  greenroom docs find data User "role == 'admin' && age > 30"
  greenroom docs find data User "age > p0" --param 30 --json`,
		Args: cobra.ExactArgs(3),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		values, err := with.values()
		if err != nil {
			return err
		}
		o := &docstore.FindOptions{Params: values, After: docstore.Path(p.after), Limit: p.limit}
		return viewList(ctx, s, func(tx *docstore.Tx) iter.Seq2[*docstore.Document, error] {
			return tx.Find(ctx, args[0], args[1], o)
		}, c.documents)
	})
	return with.flag(p.flags(c.jsonFlag(cmd, "write an object a line")))
}

// documents writes documents.
func (c *docsCommand) documents(all iter.Seq2[*docstore.Document, error]) error {
	if c.json {
		return lines(c.env.stdout, all, func(d *docstore.Document) any {
			return &entityLine{Path: d.Path, Kind: docstore.KindDocument.String(), Type: d.Label, Properties: (*propertiesJSON)(&d.Properties)}
		})
	}
	return list(output{c.env, false, "path properties"}, all, func(d *docstore.Document) ([]any, error) {
		return []any{string(d.Path), fields(propertiesJSON(d.Properties))}, nil
	})
}

func newDocsExplain(c docsCommand) *cobra.Command {
	var with params
	return with.flag(c.command(&cobra.Command{
		Use:     "explain STORE TYPE EXPRESSION",
		Short:   "Say how find finds the documents",
		Long:    "Say in a line whether find reads a category, a catalogue, an index or all documents of TYPE,\nand whether it evaluates EXPRESSION for what it reads.",
		Example: `  greenroom docs explain data User "role == 'admin' && age > 30"`,
		Args:    cobra.ExactArgs(3),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		values, err := with.values()
		if err != nil {
			return err
		}
		return s.View(ctx, func(tx *docstore.Tx) error {
			plan, err := tx.Explain(ctx, args[0], args[1], &docstore.FindOptions{Params: values})
			if err != nil {
				return err
			}
			return c.print(nil, "%s", oneLine(plan.String()))
		})
	}))
}

func newDocsSearch(c docsCommand) *cobra.Command {
	var p page
	var o docstore.SearchOptions
	cmd := c.command(&cobra.Command{
		Use:   "search STORE INDEX PATTERN",
		Short: "List the documents whose text in an index matches a pattern",
		Long: `List the documents whose text in INDEX matches PATTERN, *middle*, start*, *end, or the whole
text, in which case and the form of accents don't matter. With --ranked, what matches
most often comes first, and a second column says how often.`,
		Example: `  greenroom docs search data /by-name "*doe*" --ranked
  greenroom docs search data /by-name "j(oh|a)n" --regexp`,
		Args: cobra.ExactArgs(3),
	}, reads, func(ctx context.Context, s *docstore.Store, args []string) error {
		o.After, o.Limit = docstore.Path(p.after), p.limit
		return s.View(ctx, func(tx *docstore.Tx) error {
			found, err := tx.Search(ctx, docstore.Path(args[0]), args[1], &o)
			if err != nil {
				return err
			}
			return c.matches(found, o.Ranked)
		})
	})
	flags := cmd.Flags()
	flags.BoolVar(&o.Regexp, "regexp", false, "PATTERN is a regular expression, which matches anywhere in the text")
	flags.BoolVar(&o.Ranked, "ranked", false, "what matches most often first")
	flags.BoolVar(&o.Scan, "scan", false, "read all documents while the index is being built")
	return p.flags(c.jsonFlag(cmd, "write an object a line"))
}

// matches writes what a search found.
func (c *docsCommand) matches(found []docstore.Match, counts bool) error {
	columns := "path"
	if counts {
		columns = "path matches"
	}
	if c.json {
		return lines(c.env.stdout, all(found), func(m docstore.Match) any {
			return map[string]any{"path": m.Path, "matches": m.Count}
		})
	}
	return list(output{c.env, false, columns}, all(found), func(m docstore.Match) ([]any, error) {
		return []any{string(m.Path), m.Count}[:1+len(columns)/len("path matches")], nil
	})
}
