package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/itemstore"
)

func newItemsSync(c itemsCommand) *cobra.Command {
	return c.jsonFlag(c.command(&cobra.Command{
		Use:   "sync STORE {PREFIX | TOKEN}",
		Short: "List items with a token, or what has changed since a token",
		Long: `With PREFIX, list its items and then a token. With TOKEN, list what has changed since it
was written: an item is changed, as it is now, or its path is deleted, or outside of the
list; the first line is a reset if the token is too old, and what follows is the whole list.
The last line is the token for the next time.`,
		Example: `  greenroom items sync data /student-123
  greenroom items sync data "$token"`,
		Args: cobra.ExactArgs(2),
	}, reads, func(ctx context.Context, s *itemstore.Store, args []string) error {
		if strings.HasPrefix(args[0], "/") {
			return c.copy(ctx, s, itemstore.Path(args[0]))
		}
		token, err := base64.RawURLEncoding.DecodeString(args[0])
		if err != nil {
			return serving.Usage("that is neither a path, which begins with a slash, nor a token")
		}
		return c.sync(ctx, s, token)
	}), itemUsage)
}

// copy lists all of a prefix, with the token.
func (c *itemsCommand) copy(ctx context.Context, s *itemstore.Store, prefix itemstore.Path) error {
	var changes []*itemLine
	page, err := s.Page(ctx, prefix, nil)
	for err == nil {
		for _, item := range page.Items {
			changes = append(changes, changeLine(itemstore.Change{Kind: itemstore.Changed, Path: item.Path, Item: &item}))
		}
		if !page.More {
			return c.changes(changes, page.Token)
		}
		page, err = s.NextPage(ctx, page.Token, nil)
	}
	return err
}

// sync lists what has changed, with the new token.
func (c *itemsCommand) sync(ctx context.Context, s *itemstore.Store, token itemstore.Token) error {
	var changes []*itemLine
	for {
		news, err := s.Sync(ctx, token)
		if err != nil {
			return err
		}
		if news.Reset {
			changes = []*itemLine{{Change: "reset"}}
		}
		for _, change := range news.Changes {
			changes = append(changes, changeLine(change))
		}
		if token = news.Token; !news.More {
			return c.changes(changes, token)
		}
	}
}

func changeLine(change itemstore.Change) *itemLine {
	l := &itemLine{Path: change.Path}
	if change.Item != nil {
		l = lineOf(change.Item)
	}
	l.Change = change.Kind.String()
	return l
}

// changes writes changes, and the token.
func (c *itemsCommand) changes(changes []*itemLine, token itemstore.Token) error {
	text := base64.RawURLEncoding.EncodeToString(token)
	if c.json {
		err := lines(c.env.stdout, all(changes), func(l *itemLine) any { return l })
		if err == nil {
			err = c.env.object(map[string]string{"token": text}, "")
		}
		return err
	}
	err := list(output{c.env, false, "change path type fields"}, all(changes), func(l *itemLine) ([]any, error) {
		shown := maybe("")
		if l.Item != nil {
			shown = maybe(fields(l.Item))
		}
		return []any{l.Change, l.Path, maybe(l.Type), shown}, nil
	})
	return c.print(err, "%s", text)
}

func newItemsSchema(c itemsCommand) *cobra.Command {
	cmd := c.command(&cobra.Command{
		Use:   "schema STORE",
		Short: "Show the item types of the newest version of the schema",
		Long: `Show the item types of the newest version of the schema: their key paths, the primary one
first, and their fields with what they hold and the rules that they have. The first row
is the version.`,
		Example: "  greenroom items schema data\n  greenroom items schema data --json",
		Args:    cobra.ExactArgs(1),
	}, reads, func(_ context.Context, s *itemstore.Store, _ []string) error {
		schema := s.Schema()
		if c.json {
			return c.env.object(schema, "")
		}
		rows := [][]any{{maybe(""), fmt.Sprint(schema.Version), "version", maybe("")}}
		for _, t := range schema.Types {
			rows = append(rows, typeRows(&t)...)
		}
		return list(output{c.env, false, "type name kind rules"}, all(rows), func(row []any) ([]any, error) { return row, nil })
	})
	return c.jsonFlag(cmd, "write an object")
}

// typeRows are the rows of an item type.
func typeRows(t *itemstore.TypeInfo) (rows [][]any) {
	for _, p := range t.Paths {
		template, options, _ := strings.Cut(p, " ")
		rows = append(rows, []any{t.Name, template, "path", maybe(options)})
	}
	if t.TTL != "" {
		rows = append(rows, []any{t.Name, t.TTL, "ttl", maybe("")})
	}
	if t.Codec {
		rows = append(rows, []any{t.Name, maybe(""), "codec", maybe("")})
	}
	for _, f := range t.Fields {
		rows = append(rows, []any{t.Name, f.Name, f.Kind, maybe(rulesOf(&f))})
	}
	return rows
}

// rulesOf is what is asked of a field, as its tags have it.
func rulesOf(f *itemstore.FieldInfo) string {
	var rules []string
	for _, r := range []struct {
		has  bool
		text string
	}{
		{f.Required, "required"}, {f.Make != "", f.Make}, {f.Deprecated, "deprecated"},
		{f.Valid != "", "valid " + f.Valid}, {f.Default != "", "default=" + f.Default},
	} {
		if r.has {
			rules = append(rules, r.text)
		}
	}
	return strings.Join(rules, ", ")
}

func newItemsCheck(c itemsCommand) *cobra.Command {
	return c.check(&cobra.Command{
		Short: "Read all items, and report what doesn't fit together",
		Long: `Read all rows of the items, and write a line about each thing that is wrong: the key, in
hexadecimal, and what. A last line counts. The status is 1 if there are problems.
Nothing is changed.`,
		Example: "  greenroom items check data",
	}, func(ctx context.Context, s *itemstore.Store) (list []complaint, err error) {
		problems, err := s.Check(ctx)
		for _, p := range problems {
			list = append(list, complaint{hex.EncodeToString(p.Key), p.What})
		}
		return list, err
	})
}
