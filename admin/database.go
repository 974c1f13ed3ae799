package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/ncruces/go-sqlite3"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/sqlrun"
)

// ImportDatabase has the process that has the store make the SQLite database that file has, with a rollback journal, the actor's, in one transaction: on
// an error the old one stays. file is not closed. With create an actor that doesn't exist is made. Errors: *Error, one of the network.
func (c *Client) ImportDatabase(ctx context.Context, actor string, create bool, file io.Reader) error {
	path := "/v1/actors/" + url.PathEscape(actor) + "/database"
	if create {
		path += "?create=true"
	}
	return c.do(ctx, http.MethodPut, path, "application/vnd.sqlite3", io.NopCloser(file), &None{})
}

// putDatabase makes the body the database of an actor.
func (s *Server) putDatabase(w http.ResponseWriter, r *http.Request) {
	actor, create := r.PathValue("actor"), r.URL.Query().Get("create") == "true"
	// It is here before the actor is disturbed.
	file, err := receive(r.Body)
	if err != nil {
		refuse(w, err)
		return
	}
	defer os.Remove(file)
	src, err := sqlite3.OpenFlags(fileURI(file), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		refuse(w, err)
		return
	}
	defer src.Close()
	if found, err := sqlrun.Pragma(src, "quick_check(1)"); err != nil || found != "ok" {
		refuse(w, say(errors.Join(err, sqlite3.CORRUPT), "the file is no SQLite database, or a damaged one: %s", found))
		return
	}
	err = s.audited(r, "database", actor, func(ctx context.Context) error {
		return s.visit(ctx, actor, create, func(ctx context.Context, a *greenroom.Actor) error {
			t, err := sqlrun.Open(ctx, a.SQL())
			if err == nil {
				err = t.Replace(ctx, src)
			}
			return errors.Join(err, t.Close())
		})
	})
	if err != nil {
		refuse(w, err)
		return
	}
	reply(w, &None{})
}

// receive stores a body in a file, which is its owner's alone. The caller removes it.
func receive(body io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "greenroom-import-*.db")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// fileURI returns the URI of a file.
//
// https://sqlite.org/uri.html
func fileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
