package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
)

// itemsName is the name of the items that are meant if there are several.
const itemsName = "items"

// An itemsCommand is the call of one of the commands on items.
type itemsCommand struct {
	env  *env
	name string // of the item store; "" for the one that find chooses
	json bool
}

// command completes a command, which reads only if it says so.
func (c *itemsCommand) command(cmd *cobra.Command, reads bool, run func(ctx context.Context, s *itemstore.Store, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&c.name, "name", "", "the `NAME` of the items; without it the only one that there is, or "+itemsName)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.open(cmd.Context(), args[0], reads, func(s *itemstore.Store) error {
			return run(cmd.Context(), s, args[1:])
		})
	}
	return cmd
}

// jsonFlag adds the flag to a command that lists.
func (c *itemsCommand) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&c.json, "json", false, "write an object a line, with all that is known of an item")
	return cmd
}

// open runs fn with the items that are meant.
func (c *itemsCommand) open(ctx context.Context, url string, reads bool, fn func(*itemstore.Store) error) error {
	return withEngine(ctx, url, greenroom.Options{MustExist: true, ReadOnly: reads}, func(e kv.Engine) error {
		name, err := c.find(ctx, e, url)
		if err != nil {
			return err
		}
		s, err := itemstore.Open(ctx, e, name, nil, &itemstore.Options{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = fn(s)
		}
		return itemsError(err)
	})
}

// find returns the name of the items that are meant.
func (c *itemsCommand) find(ctx context.Context, e kv.Engine, url string) (string, error) {
	names, err := itemstore.Names(ctx, e)
	if err != nil {
		return "", itemsError(err)
	}
	url = storeurl.Display(url)
	all := fmt.Sprintf("%q", names)
	all = all[1 : len(all)-1]
	switch {
	case len(names) == 0:
		return "", say(nil, "there are no items in %s", url)
	case c.name != "" && slices.Contains(names, c.name):
		return c.name, nil
	case c.name != "":
		return "", say(nil, "there are no items with the name %q in %s: those there are have the names %s", c.name, url, all)
	case len(names) == 1:
		return names[0], nil
	case slices.Contains(names, itemsName):
		return itemsName, nil
	}
	return "", &usageError{"say which items by --name, which is one of " + all}
}

// itemsError says what is wrong with what was asked for.
func itemsError(err error) error {
	var taken *itemstore.PathTakenError
	if err == nil || errors.As(err, new(*sentence)) || errors.As(err, new(*usageError)) {
		return err
	}
	text := strings.ReplaceAll(err.Error(), "itemstore: ", "")
	switch {
	case errors.As(err, &taken) && !errors.Is(err, itemstore.ErrExists):
		return say(err, "the item %s has the path %s", taken.Owner, taken.Path)
	case errors.Is(err, itemstore.ErrPath), errors.Is(err, itemstore.ErrToken):
		return &usageError{text}
	}
	return say(err, "%s", text)
}

// An itemLine is an item as an object. Primary is left out where it is the path.
type itemLine struct {
	Change   string         `json:"change,omitempty"`
	Path     itemstore.Path `json:"path"`
	Type     string         `json:"type,omitempty"`
	Primary  itemstore.Path `json:"primary,omitempty"`
	Created  time.Time      `json:"created,omitzero"`
	Modified time.Time      `json:"modified,omitzero"`
	Ends     time.Time      `json:"ends,omitzero"`
	Version  string         `json:"version,omitempty"`
	Item     any            `json:"item,omitempty"`
}

func lineOf(item *itemstore.Item) *itemLine {
	l := &itemLine{Path: item.Path, Type: item.Type, Created: item.Created.UTC(), Modified: item.Modified.UTC(),
		Version: item.Version.String(), Item: item.Value}
	if item.Primary != item.Path {
		l.Primary = item.Primary
	}
	if !item.Ends.IsZero() {
		l.Ends = item.Ends.UTC()
	}
	return l
}

// lines writes an object for each of list, which row returns.
func lines[T any](w io.Writer, list iter.Seq2[T, error], row func(T) any) error {
	out := bufio.NewWriter(w)
	enc := newJSON(out)
	for item, err := range list {
		if err == nil {
			err = enc.Encode(row(item))
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}

// fieldsShown is how many characters of an item's fields a list shows.
const fieldsShown = 80

// fields is an item's fields in JSON, shortened.
func fields(item any) string {
	b, err := json.Marshal(item)
	if err != nil {
		return err.Error()
	}
	text := []rune(string(jsonCell(json.RawMessage(b)).text))
	if len(text) > fieldsShown {
		text = append(text[:fieldsShown], '…')
	}
	return string(text)
}

// list writes items.
func (c *itemsCommand) list(items iter.Seq2[itemstore.Item, error]) error {
	if c.json {
		return lines(c.env.stdout, items, func(item itemstore.Item) any { return lineOf(&item) })
	}
	return list(output{c.env, false, "path type modified fields"}, items, func(item itemstore.Item) ([]any, error) {
		return []any{item.Path, item.Type, item.Modified, fields(item.Value)}, nil
	})
}

// pathsOf returns the arguments as paths.
func pathsOf(args []string) (paths []itemstore.Path, err error) {
	for _, a := range args {
		p, err := itemstore.ParsePath(a)
		if err != nil {
			return nil, err
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// found returns the items at paths, all of which must be there.
func found(ctx context.Context, r itemstore.Reader, paths []itemstore.Path) ([]itemstore.Item, error) {
	items, err := r.Items(ctx, paths...)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		if i == len(items) || items[i].Path != p {
			return nil, say(itemstore.ErrNotFound, "there is no item at %s", p)
		}
	}
	return items, nil
}
