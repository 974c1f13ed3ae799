package main

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
)

// An itemsCommand is the call of one of the commands on items.
type itemsCommand struct {
	modelCommand[itemstore.Store]
}

var itemsModel = &model[itemstore.Store]{
	what: "items", names: itemstore.Names, explain: itemsError,
	open: func(ctx context.Context, e kv.Engine, name string) (*itemstore.Store, error) {
		return itemstore.Open(ctx, e, name, nil, &itemstore.Options{Logger: slog.New(slog.DiscardHandler)})
	},
}

// itemUsage is what the flag --json does.
const itemUsage = "write an object a line, with all that is known of an item"

// itemsError says what is wrong with what was asked for.
func itemsError(err error) error {
	var taken *itemstore.PathTakenError
	text := strings.ReplaceAll(err.Error(), "itemstore: ", "")
	switch {
	case errors.As(err, &taken) && !errors.Is(err, itemstore.ErrExists):
		return say(err, "the item %s has the path %s", taken.Owner, taken.Path)
	case errors.Is(err, itemstore.ErrPath), errors.Is(err, itemstore.ErrToken):
		return serving.Usage(text)
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
