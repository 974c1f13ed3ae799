package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/itemstore"
)

func newItemsPut(c itemsCommand) *cobra.Command {
	var o itemstore.PutOptions
	var text []byte
	cmd := c.command(&cobra.Command{
		Use:   "put STORE TYPE [JSON|-]",
		Short: "Put an item, and write its primary path",
		Long: `Put an item of the type, whose fields are an object in JSON, or what standard input has
to its end, as get writes it. A field that the type doesn't have is refused; one that is
left out is zero. It replaces the item at the same primary path.`,
		Example: `  greenroom items put data Student '{"ID":125,"GraduatingYear":2026,"Name":"Cleo"}'`,
		Args:    cobra.RangeArgs(2, 3),
	}, writes, func(ctx context.Context, s *itemstore.Store, args []string) error {
		item, err := s.NewItem(args[0])
		if err != nil {
			return err
		}
		if err := decodeItem(text, item); err != nil {
			return serving.Usage("the item: " + strings.TrimPrefix(err.Error(), "json: "))
		}
		if err := s.Put(ctx, item, &o); err != nil {
			return err
		}
		path, err := s.PathOf(item)
		if err == nil {
			_, err = fmt.Fprintln(c.env.stdout, visibleText(string(path)))
		}
		return err
	})
	cmd.Flags().BoolVar(&o.MustNotExist, "new", false, "refuse it if the item is there")
	return c.withValue(cmd, &text)
}

// decodeItem sets item to the one object in JSON that text is.
func decodeItem(text []byte, item any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(item); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more behind it")
	}
	return nil
}

func newItemsRemove(c itemsCommand) *cobra.Command {
	var prefix string
	cmd := c.command(&cobra.Command{
		Use:   "rm STORE {PATH… | --prefix PREFIX}",
		Short: "Remove items",
		Long: `Remove the items at the paths, each at all of its paths, or none if one of them isn't
there; or all whose paths begin with a prefix, in several transactions.`,
		Example: `  greenroom items rm data /student-123
  greenroom items rm data --prefix /course-MATH321/year-2023`,
		Args: cobra.MinimumNArgs(1),
	}, writes, func(ctx context.Context, s *itemstore.Store, args []string) error {
		paths, err := pathsOf(args)
		switch {
		case err != nil:
			return err
		case (len(args) > 0) == (prefix != ""):
			return serving.Usage("name the paths, or --prefix: one of the two")
		case prefix != "":
			n, err := s.DeletePrefix(ctx, itemstore.Path(prefix))
			return c.print(err, "%s removed", count(n, "item"))
		}
		return s.Update(ctx, func(tx *itemstore.Tx) error {
			if _, err := found(ctx, tx, paths); err != nil {
				return err
			}
			return tx.Delete(ctx, paths...)
		})
	})
	cmd.Flags().StringVar(&prefix, "prefix", "", "remove the items whose paths begin with this `PREFIX`")
	return cmd
}

func newItemsSweep(c itemsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:     "sweep STORE",
		Short:   "Remove the items that have ended",
		Long:    "Remove the items whose time is over, which no list shows any more, and have sync forget\nwhat was deleted more than 60 days ago.",
		Example: "  greenroom items sweep data",
		Args:    cobra.ExactArgs(1),
	}, writes, func(ctx context.Context, s *itemstore.Store, _ []string) error {
		swept, err := s.Sweep(ctx)
		return c.print(err, "%s removed, %s forgotten", count(swept.Items, "item"), count(swept.Deletions, "deletion"))
	})
}

func newItemsBuild(c itemsCommand) *cobra.Command {
	return c.command(&cobra.Command{
		Use:   "build STORE",
		Short: "Build the key paths that aren't there for all items yet",
		Long: `Build the key paths of the newest version of the schema that aren't there for all items
yet, and write their types and templates, with the names that the fields had in the first
version. If it is interrupted, it goes on there when it is called again. An item goes
without a path that another one has.`,
		Example: "  greenroom items build data",
		Args:    cobra.ExactArgs(1),
	}, writes, func(ctx context.Context, s *itemstore.Store, _ []string) error {
		building, err := s.Building(ctx)
		if err == nil {
			err = s.Build(ctx)
		}
		if err != nil {
			return err
		}
		return list(output{c.env, false, "type path"}, all(building), func(b itemstore.Building) ([]any, error) {
			return []any{b.Type, b.Template}, nil
		})
	})
}
