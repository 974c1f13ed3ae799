package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
	"github.com/greenroomdb/greenroom/vfs"
)

func databaseReads() []route {
	return []route{{
		method: http.MethodGet, path: "/v1/actors/{actor}/database", reads: true, gives: mediaDatabase,
		what: "Copy the database of an actor, in one state, as an SQLite file. The answer begins when the copy is whole.",
		serve: func(s *Server, w http.ResponseWriter, r *http.Request) {
			file, err := saveDatabase(r.Context(), s.store, r.PathValue("actor"))
			if err != nil {
				refuse(w, err)
				return
			}
			defer file.remove()
			file.send(w)
		},
	}}
}

// mediaDatabase is the media type of an SQLite file.
//
// https://www.iana.org/assignments/media-types/application/vnd.sqlite3
const mediaDatabase = "application/vnd.sqlite3"

// errNoDatabase refuses what needs a database that isn't there.
var errNoDatabase error = &Error{Code: "not_found", Message: "the actor has no database"}

// A copied is a copy of a database in a file of this process.
type copied struct{ *os.File }

// saveDatabase copies the database of an actor. The caller removes the copy.
func saveDatabase(ctx context.Context, s *greenroom.Store, actor string) (c copied, err error) {
	leave, err := enterQueries(ctx)
	if err != nil {
		return c, err
	}
	defer leave()
	f, err := os.CreateTemp("", "greenroom-export-*.db")
	if err != nil {
		return c, err
	}
	c = copied{f}
	err = viewActor(ctx, s, actor, func(v *greenroom.View) error {
		if found, err := vfs.Exists(ctx, v.Lower()); err != nil || !found {
			return cmp.Or(err, errNoDatabase)
		}
		db, err := v.SQL()
		if err != nil {
			return err
		}
		t, err := sqlrun.Open(ctx, db)
		if err == nil {
			err = t.Save(ctx, f.Name())
		}
		return errors.Join(err, t.Close())
	})
	if err != nil {
		c.remove()
		return copied{}, err
	}
	return c, nil
}

func (c copied) remove() {
	_ = c.Close() // nothing of it is kept
	_ = os.Remove(c.Name())
}

// copyStep is how much of a copy is sent between two looks whether the client takes it, in bytes.
const copyStep = 1 << 20

// send answers with the copy. A client that doesn't take a part of it in 30 seconds is cut off.
func (c copied) send(w http.ResponseWriter) {
	info, err := c.Stat()
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", mediaDatabase)
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	to := http.NewResponseController(w)
	for err == nil {
		if err = to.SetWriteDeadline(time.Now().Add(30 * time.Second)); err == nil {
			_, err = io.CopyN(w, c, copyStep)
		}
	} // what doesn't arrive the client misses
}
